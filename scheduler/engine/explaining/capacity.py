"""Reasons that lie in what is free now, reservations aside."""

from __future__ import annotations

import numpy as np

from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import name_words, need_words, spread_words
from scheduler.engine.gang import has_room
from scheduler.engine.placement import eligible_nodes
from scheduler.engine.shaping.nodes import group_of
from scheduler.engine.shaping.sizes import least_size
from scheduler.engine.shaping.topology import best_count, count_groups
from scheduler.engine.snapshot import NONE, TOPOLOGIES, Flags, flags, ints
from scheduler.states import LACKS_GPUS, LACKS_NODES, LACKS_OTHER

# Of those who hold a licence, so many are named.
MOST_HOLDERS = 10


def find_busy(case: Case) -> Finding | None:
    """Fewer devices are free than it needs; or it needs none and no node has cpus and memory."""
    if _fits(case):
        return None
    fit, free, request = _fit(case), _free(case), case.request
    if free >= request.least_gpus and (request.gpus or _are_enough(case, fit)):
        return None
    return Finding(_facts(case, fit, free))


def find_fragmented(case: Case) -> Finding | None:
    """Too few nodes hold a share, or they are too far apart; `lack` if that is not for want of
    devices that are free together."""
    if _fits(case):
        return None
    fit, free, request = _fit(case), _free(case), case.request
    facts = {**_facts(case, fit, free), "best": int(np.count_nonzero(fit))}
    if request.gpus and (lack := _lack(case, fit, free)):
        facts["lack"] = lack
    if request.topology and _are_enough(case, fit):
        snapshot = case.board.snapshot
        counts = count_groups(group_of(snapshot, request), ints(np.flatnonzero(fit)))
        best = best_count(counts, request.nodes, request.spread)
        facts |= {"best": f"{best} {spread_words(request)}", "best_nodes": best}
        facts |= {"level": TOPOLOGIES[request.topology]}
    return Finding(facts)


def find_unisolated(case: Case) -> Finding | None:
    """It would fit if other tenants were not on the cards."""
    if not _fits(case) or has_room(case.board, case.request):
        return None
    return Finding(_facts(case, _fit(case), _free(case)))


def find_unlicensed(case: Case) -> Finding | None:
    """Too few tokens of a licence are free, or a head waits for them."""
    board, request = case.board, case.request
    if request.licences == NONE or board.licences.hold(request, past_reservations=False):
        return None
    snapshot, need = board.snapshot, board.licences.needs[request.licences]
    asked = np.flatnonzero(need)
    # The one that is shortest, if all are there the first: then they are kept for a head.
    row = int(asked[(board.licences.free - need)[asked].argmin()])
    tokens = snapshot.tokens.take(snapshot.tokens.licence == row)
    ends_s = tokens.until_s[np.isfinite(tokens.until_s)]
    return Finding(
        {
            **name_words(board, request),
            "licence": snapshot.licences[row],
            "asked": int(need[row]),
            "free": int(board.licences.free[row]),
            "total": int(snapshot.licence_total[row]),
            "holders": np.unique(tokens.job)[:MOST_HOLDERS].tolist(),
            "next_free_at": int(-(-ends_s.min() // 60) * 60) if len(ends_s) else None,
        }
    )


def _fits(case: Case) -> bool:
    """Whether it fits now, other tenants and licences aside."""
    if "fits" not in case.memo:
        case.memo["fits"] = has_room(case.board, case.request, past_tenants=True)
    return bool(case.memo["fits"])


def _fit(case: Case) -> Flags:
    return eligible_nodes(case.board, case.request, past_tenants=True)


def _are_enough(case: Case, fit: Flags) -> bool:
    return int(np.count_nonzero(fit)) >= least_size(case.board.snapshot, case.request)


def _free(case: Case) -> int:
    here = case.board.in_pool[case.request.pool]
    return int(case.board.free_of(case.request, past_tenants=True)[here].sum())


def _lack(case: Case, fit: Flags, free: int) -> str:
    """What room for its devices lacks; empty for some that are free together, as is usual."""
    board, request = case.board, case.request
    if free < request.least_gpus:
        return LACKS_GPUS
    together = board.free_of(request, past_tenants=True) >= request.gpus
    holds = flags(together & board.in_pool[request.pool])
    return LACKS_OTHER if _are_enough(case, holds) and not _are_enough(case, fit) else ""


def _facts(case: Case, fit: Flags, free: int) -> dict[str, object]:
    board, request = case.board, case.request
    here = board.in_pool[request.pool]
    # CPUs and memory are named only where they, not devices, keep a node from holding a share.
    free_of = board.free_of(request, past_tenants=True)
    short_of_host = bool(((free_of >= request.gpus) & here & ~fit).any())
    facts: dict[str, object] = {
        **name_words(board, request),
        "need": need_words(board, request, with_host=short_of_host),
        "next_free_at": case.next_free_at,
    }
    if request.gpus:
        facts |= {"free": free, "total": int(board.present_gpus.of(request)[here].sum())}
    else:
        # Devices say nothing of it.
        facts |= {"best": int(np.count_nonzero(fit)), "lack": LACKS_NODES}
    return facts
