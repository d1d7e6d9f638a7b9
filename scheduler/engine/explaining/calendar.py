"""Reasons that lie in the calendar: a job that starts now would still be there then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.engine.board.kept import Kept
from scheduler.engine.explaining.case import Case, Finding
from scheduler.engine.explaining.words import name_words
from scheduler.engine.gang import can_start, has_room
from scheduler.engine.placement import has_nodes
from scheduler.engine.plan import SlotKind
from scheduler.engine.snapshot import flags


def find_maintenance(case: Case) -> Finding | None:
    """It would cross a maintenance window, wherever it starts now.

    That is so if the nodes with room now are all in one before the job is gone; or, though none has
    room, if too few nodes of the pool are open for as long as that.
    """
    board, snapshot = case.board, case.board.snapshot
    kept = board.keeping.of_pool(case.request.pool)
    windows = [one for one in kept if one.kind is SlotKind.MAINTENANCE]
    first = _first_crossed(case, windows) if windows else None
    if first is None:
        return None
    gone_s = snapshot.now_s + snapshot.waiting.remaining_s[case.rows] + board.keeping.slack_s
    crosses = flags(gone_s > first.from_s)
    if not crosses.any():
        return None
    limit_s = int(first.from_s - snapshot.now_s - board.keeping.slack_s)
    beside = [one for one in kept if one.from_s < first.from_s and not one.is_promise]
    would_fit = limit_s > 0 and can_start(board, case.request, beside)
    remedy = f"; with a limit of {_duration(limit_s)} it could start now" if would_fit else ""
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


def _first_crossed(case: Case, windows: Sequence[Kept]) -> Kept | None:
    """The earliest window that no job of the class may still meet; None if there is none."""
    fits_now = has_room(case.board, case.request)
    for window in sorted(windows, key=lambda one: one.from_s):
        met = [one for one in windows if one.from_s <= window.from_s]
        if fits_now:
            is_open = has_room(case.board, case.request, met)
        else:
            among = case.board.snapshot.nodes.takes_work.copy()
            among[np.concatenate([one.nodes for one in met])] = False
            is_open = has_nodes(case.board, case.request, case.board.offered_gpus, among)
        if not is_open:
            return window
    return None


def _moment(at_s: float) -> str:
    """Such as "2026-11-27 18:00 UTC"."""
    return str(np.datetime64(int(at_s), "s")).replace("T", " ")[:16] + " UTC"


def _duration(seconds: int) -> str:
    """Such as "3 h", "2 h 40 min" or "50 s"; never more than that."""
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    if not seconds // 60:
        return f"{seconds} s"
    words = [f"{hours} h"] * (hours > 0) + [f"{minutes} min"] * (minutes > 0)
    return " ".join(words)
