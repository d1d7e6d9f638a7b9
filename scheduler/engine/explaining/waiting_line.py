"""Reasons that lie in the jobs ahead: it fits, on nodes kept for a protected head."""

from __future__ import annotations

from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import name_words
from scheduler.engine.snapshot import flags


def find_outranked(case: Case) -> Finding | None:
    """The head is of a higher tier."""
    if case.head is None:
        return None
    tier = case.board.snapshot.waiting.tier[case.rows]
    return Finding(_facts(case, case.head.row), flags(tier < case.head.tier))


def find_delaying(case: Case) -> Finding | None:
    """The head is of its own tier."""
    if case.head is None:
        return None
    # The head itself delays nobody: what it waits for comes later in the precedence.
    return Finding(_facts(case, case.head.row), flags(case.rows != case.head.row))


def _facts(case: Case, head_row: int) -> dict[str, object]:
    head = int(case.board.snapshot.waiting.id[head_row])
    return {**name_words(case.board, case.request), "head": head}
