"""Reasons that lie in what is free now, reservations aside."""

from __future__ import annotations

import numpy as np

from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import name_words, need_words
from scheduler.engine.gang import choose_nodes
from scheduler.engine.placement import eligible_nodes
from scheduler.engine.snapshot import Flags


def find_busy(case: Case) -> Finding | None:
    """Fewer devices are free than it needs; or it needs none and no node has cpus and memory."""
    fit = eligible_nodes(case.board, case.request, past_reservations=True)
    if _fits(case, fit):
        return None
    free = _free(case)
    if case.request.gpus and free >= case.request.total_gpus:
        return None
    return Finding(_facts(case, fit, free))


def find_fragmented(case: Case) -> Finding | None:
    """Enough devices are free, but too few nodes hold a share."""
    fit = eligible_nodes(case.board, case.request, past_reservations=True)
    if _fits(case, fit):
        return None
    best = int(np.count_nonzero(fit))
    return Finding({**_facts(case, fit, _free(case)), "best": best})


def _fits(case: Case, fit: Flags) -> bool:
    board, request = case.board, case.request
    return int(np.count_nonzero(fit)) >= request.nodes and (
        not request.part_gpus or choose_nodes(board, request, past_reservations=True) is not None
    )


def _free(case: Case) -> int:
    here = case.board.in_pool[case.request.pool]
    return int(case.board.free_of(case.request)[here].sum())


def _facts(case: Case, fit: Flags, free: int) -> dict[str, object]:
    board, request = case.board, case.request
    here = board.in_pool[request.pool]
    # CPUs and memory are named only where they, not devices, keep a node from holding a share.
    short_of_host = bool(((board.free_of(request) >= request.gpus) & here & ~fit).any())
    return {
        **name_words(board, request),
        "need": need_words(board, request, with_host=short_of_host),
        "free": free,
        "total": int(board.present_gpus[request.model][here].sum()),
        "next_free_at": case.next_free_at,
    }
