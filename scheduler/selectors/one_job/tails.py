"""The ends of an attempt's logs, for what is decided by them; the services act for nobody."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.models import Placement
from scheduler.selectors.logs import last_bytes
from scheduler.triage import MAX_TAIL_BYTES, LogTail

_LEAST_TAIL_BYTES = 16 * 1024


def tails_of(placements: Sequence[Placement], culprit: int) -> tuple[LogTail, ...]:
    """The ends of the logs, the culprit's first: MAX_TAIL_BYTES in all, half of them its own."""
    ordered = sorted(placements, key=lambda p: (p.rank != culprit, p.rank))
    share = MAX_TAIL_BYTES // 2 if len(ordered) > 1 else MAX_TAIL_BYTES
    found = []
    for index, placement in enumerate(ordered):
        raw, first_line, is_cut = last_bytes(placement, share)
        found.append(LogTail(placement.rank, raw, first_line, is_cut))
        if index == 0:
            share = MAX_TAIL_BYTES // 2 // max(1, len(ordered) - 1)
        if share < _LEAST_TAIL_BYTES and index >= MAX_TAIL_BYTES // 2 // _LEAST_TAIL_BYTES:
            break
        share = max(share, _LEAST_TAIL_BYTES)
    return tuple(found)
