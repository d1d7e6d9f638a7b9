"""What devices did, day by day: every bucket's seconds by UTC day, pool and flavour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.ledger.rating import DAY_S, cut
from scheduler.ledger.segments import Bucket, RollUp, Segment, roll_up


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """Device seconds of one UTC day, pool and flavour; time out of service is no capacity."""

    day_s: int
    pool: str
    flavour: str
    seconds: Mapping[Bucket, int]

    @property
    def rolled(self) -> RollUp:
        """Allocated, idle and unallocated; they add up to the time in service."""
        return roll_up(self.seconds)


class Capacity:
    """Adds segments up within a window; memory grows with days, pools and flavours."""

    def __init__(self, start_s: int, end_s: int) -> None:
        self._start_s, self._end_s = start_s, end_s
        self._rows: dict[tuple[int, str, str], dict[Bucket, int]] = {}

    def add(self, segment: Segment, pool: str, flavour: str) -> None:
        """Count a segment's seconds, split at UTC midnight."""
        if segment.bucket is Bucket.OUT:
            return
        end_s = self._end_s if segment.end_s is None else min(segment.end_s, self._end_s)
        for first, until in cut(max(segment.start_s, self._start_s), end_s, ()):
            row = self._rows.setdefault((first - first % DAY_S, pool, flavour), {})
            row[segment.bucket] = row.get(segment.bucket, 0) + until - first

    def rows(self) -> list[CapacityRow]:
        """What was counted, by day, pool and flavour."""
        return [CapacityRow(*key, seconds=self._rows[key]) for key in sorted(self._rows)]
