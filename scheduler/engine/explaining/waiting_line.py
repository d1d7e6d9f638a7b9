"""Reasons that lie in the jobs ahead: it fits, on nodes kept for a protected head."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import name_words
from scheduler.engine.gang import can_start
from scheduler.engine.plan import SlotKind
from scheduler.engine.reservation import Head
from scheduler.engine.snapshot import flags


def find_outranked(case: Case) -> Finding | None:
    """The head is of a higher tier."""
    head = _in_the_way(case)
    if head is None:
        return None
    tier = case.board.snapshot.waiting.tier[case.rows]
    return Finding(_facts(case, head.row), flags(tier < head.tier))


def find_delaying(case: Case) -> Sequence[Finding] | None:
    """The head is of its own tier; or it is a head itself, and another is in its way."""
    kept = case.board.keeping.of_pool(case.request.pool)
    head = _in_the_way(case)
    promised = [one.owner for one in kept if one.is_promise]
    owners = [other.row for other in case.heads] + promised
    if not owners:
        return None
    first = head.row if head is not None else owners[0]
    # A head delays not itself: another one does, or what comes later in the precedence.
    found = [Finding(_facts(case, first), flags(case.rows != first))]
    others = [row for row in owners if row != first]
    if others and can_start(case.board, case.request):
        found.append(Finding(_facts(case, others[0]), flags(case.rows == first)))
    return found


def _in_the_way(case: Case) -> Head | None:
    """The first head beside which, and those before it, the class does not fit."""
    if len(case.heads) < 2:
        return case.heads[0] if case.heads else None
    kept = case.board.keeping.of_pool(case.request.pool)
    for number, head in enumerate(case.heads, start=1):
        owners = {other.row for other in case.heads[:number]}
        beside = [one for one in kept if one.kind is SlotKind.HEAD and one.owner in owners]
        if not can_start(case.board, case.request, beside):
            return head
    return case.heads[-1]


def _facts(case: Case, head_row: int) -> dict[str, object]:
    head = int(case.board.snapshot.waiting.id[head_row])
    return {**name_words(case.board, case.request), "head": head}
