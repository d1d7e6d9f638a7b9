"""Reasons that lie in the calendar: a job that starts now would still be there then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.engine.board.kept import Kept, Seeker
from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import gpu_words, name_words
from scheduler.engine.gang import can_start, has_room
from scheduler.engine.placement import has_nodes
from scheduler.engine.plan import SlotKind
from scheduler.engine.snapshot import NONE, flags
from scheduler.states import rough_span


def find_maintenance(case: Case) -> Finding | None:
    """It would cross a maintenance window, wherever it starts now.

    That is so if the nodes with room now are all in one before the job is gone; or, though none has
    room, if too few nodes of the pool are open for as long as that.
    """
    kept = case.board.keeping.of_pool(case.request.pool)
    windows = [one for one in kept if one.kind is SlotKind.MAINTENANCE]
    first = _first_crossed(case, windows) if windows else None
    return None if first is None else _crossing(case, first)


def find_reserved(case: Case) -> Finding | None:
    """What has room for it is booked by others before it is gone, or kept for production.

    Or it belongs to a booking that has not begun or has no room for it now.
    """
    if case.request.booking != NONE:
        return _find_own(case)
    board, who = case.board, Seeker(NONE, case.request)
    kept = [one for one in board.keeping.binding(who) if one.kind is not SlotKind.HEAD]
    if all(one.kind is SlotKind.MAINTENANCE for one in kept):
        return None
    first = _first_crossed(case, kept)
    if first is None:
        return None
    if first.kind is SlotKind.HEADROOM:
        headroom = int(board.snapshot.headroom.gpus[first.owner])
        words = f"{headroom} GPUs of pool {board.snapshot.pools[first.pool]}"
        words += " are kept for production, or for jobs that can be stopped for it"
        facts = {**name_words(board, case.request), "headroom": headroom, "booked": words}
        return Finding({**facts, "remedy": ""})
    found = _crossing(case, first)
    if found is None:
        return None
    begins = f"from {found.facts['begin']} " if first.from_s > board.snapshot.now_s else ""
    words = f"The GPUs with room for it are booked {begins}until {found.facts['until']}"
    return Finding({**found.facts, "booked": words}, found.concerns)


def _find_own(case: Case) -> Finding | None:
    """Why its own booking does not let it start."""
    board, request = case.board, case.request
    bookings, row = board.snapshot.bookings, request.booking
    if has_room(board, request):
        return None
    begin, until = _moment(bookings.from_s[row]), _moment(bookings.until_s[row])
    number, now_s = int(bookings.id[row]), board.snapshot.now_s
    words = f"Its booking {number} has no room for it now"
    count, part = int(bookings.nodes[row]), int(bookings.gpus_per_node[row])
    if request.least_nodes > count or (part and (part < request.gpus or request.is_exclusive)):
        of_each = f", {gpu_words(part, '')} of each" if part else ""
        nodes = f"{count} node{'s' * (count > 1)}"
        words = f"Its booking {number} is too small for it: {nodes}{of_each}"
    elif bookings.from_s[row] > now_s:
        words = f"Its booking {number} begins at {begin}"
    elif bookings.until_s[row] <= now_s + board.keeping.slack_s:
        words = f"Its booking {number} ends at {until}"
    return Finding(
        {
            **name_words(board, request),
            "booking": number,
            "begin": begin,
            "until": until,
            "begins_at": int(bookings.from_s[row]),
            "until_at": int(bookings.until_s[row]),
            "fits_with_limit_s": None,
            "booked": words,
            "remedy": "",
        }
    )


def _crossing(case: Case, first: Kept) -> Finding | None:
    """Which jobs of the case are there when it begins, and with what limit one would not be."""
    board, snapshot = case.board, case.board.snapshot
    gone_s = snapshot.now_s + snapshot.waiting.remaining_s[case.rows] + board.keeping.slack_s
    crosses = flags(gone_s > first.from_s)
    if not crosses.any():
        return None
    limit_s = int(first.from_s - snapshot.now_s - board.keeping.slack_s)
    kept = board.keeping.of_pool(case.request.pool)
    beside = [one for one in kept if one.from_s < first.from_s and not one.is_promise]
    beside = [one for one in beside if not one.serves(case.request)]
    would_fit = limit_s > 0 and can_start(board, case.request, beside)
    remedy = f"; with a limit of {rough_span(limit_s)} it could start now" if would_fit else ""
    facts = {
        **name_words(board, case.request),
        "begin": _moment(first.from_s),
        "until": _moment(first.until_s),
        "begins_at": int(first.from_s),
        "until_at": int(first.until_s),
        "fits_with_limit_s": limit_s if would_fit else None,
        "remedy": remedy,
    }
    return Finding(facts, crosses)


def _first_crossed(case: Case, kept: Sequence[Kept]) -> Kept | None:
    """The earliest of these that no job of the class may still meet; None if there is none.

    Each that is met leaves fewer nodes open, so it is found by halving.
    """
    fits_now = has_room(case.board, case.request)
    ordered = sorted(kept, key=lambda one: one.from_s)
    if not ordered or _is_open(case, ordered, fits_now=fits_now):
        return None
    low, high = 0, len(ordered) - 1
    while low < high:
        middle = (low + high) // 2
        met = [one for one in ordered if one.from_s <= ordered[middle].from_s]
        if _is_open(case, met, fits_now=fits_now):
            low = middle + 1
        else:
            high = middle
    first_s = ordered[low].from_s
    return next(one for one in ordered if one.from_s == first_s)


def _is_open(case: Case, met: Sequence[Kept], *, fits_now: bool) -> bool:
    """Whether a job of the class that meets these has enough nodes."""
    if fits_now:
        return has_room(case.board, case.request, met)
    among = case.board.snapshot.nodes.takes_work.copy()
    if shut := [one.nodes for one in met if one.is_whole]:
        among[np.concatenate(shut)] = False
    return has_nodes(case.board, case.request, case.board.offered_gpus, among)


def _moment(at_s: float) -> str:
    """Such as "2026-11-27 18:00 UTC"."""
    return str(np.datetime64(int(at_s), "s")).replace("T", " ")[:16] + " UTC"
