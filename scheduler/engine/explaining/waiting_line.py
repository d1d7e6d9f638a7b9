"""Reasons that lie in the jobs ahead: it fits, on nodes kept for a protected head."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import name_words
from scheduler.engine.gang import can_start
from scheduler.engine.placement import is_capable
from scheduler.engine.plan import SlotKind
from scheduler.engine.reservation import Head
from scheduler.engine.snapshot import NONE, flags


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
    meets = _whom_it_meets(case)
    promised = [one.owner for one in kept if one.is_promise]
    owners = [row for row in [*(other.row for other in case.heads), *promised] if row in meets]
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
    meets = _whom_it_meets(case)
    heads = [head for head in case.heads if head.row in meets]
    if len(heads) < 2:
        return heads[0] if heads else None
    kept = case.board.keeping.of_pool(case.request.pool)
    for number, head in enumerate(heads, start=1):
        owners = {other.row for other in heads[:number]}
        beside = [one for one in kept if one.kind is SlotKind.HEAD and one.owner in owners]
        if not can_start(case.board, case.request, beside):
            return head
    return heads[-1]


def _whom_it_meets(case: Case) -> Collection[int]:
    """The waiting rows of those for whom something is kept that the class could have: nodes that
    can hold a share of it, or licences."""
    found = case.memo.get("meets")
    if not isinstance(found, frozenset):
        board, request = case.board, case.request
        kept = [one for one in board.keeping.of_pool(request.pool) if one.kind is SlotKind.HEAD]
        able = np.zeros(len(board.changes), dtype=np.bool_)
        for shape in request.shapes() if kept else ():
            able |= is_capable(board, shape, board.offered_gpus)
        licences = board.snapshot.waiting.licences
        found = frozenset(
            one.owner
            for one in kept
            if able[one.nodes].any() or (request.licences != NONE and licences[one.owner] != NONE)
        )
        case.memo["meets"] = found
    return found


def _facts(case: Case, head_row: int) -> dict[str, object]:
    head = int(case.board.snapshot.waiting.id[head_row])
    return {**name_words(case.board, case.request), "head": head}
