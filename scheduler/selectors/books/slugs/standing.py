"""A team's GPUs moment by moment: what it holds, is guaranteed and waits for, counted by day."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from scheduler.ledger.rating import DAY_S


@dataclass(slots=True)
class Day:
    """GPU-seconds of a day; `guaranteed` and `peak` are the most GPUs at one moment."""

    used: int = 0
    unused: int = 0
    waited: int = 0
    caused: int = 0
    guaranteed: int = 0
    peak: int = 0


@dataclass(slots=True)
class Standing:
    """A team's GPUs of one model, moment by moment. Told what begins, in order of time."""

    now_s: int
    promised: list[tuple[int, int]]
    held: list[int] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    waiting: int = 0
    guaranteed: int = 0
    days: dict[int, Day] = field(default_factory=dict)

    def go_to(self, until_s: int) -> None:
        """Count what stands until a second, ending what ends on the way."""
        while True:
            self._settle()
            if self.now_s >= until_s:
                return
            first = self.now_s - self.now_s % DAY_S
            then = min(until_s, first + DAY_S)
            then = min(then, self.changes_s())
            if self.held:
                then = min(then, self.held[0])
            if self.waits:
                then = min(then, self.waits[0][0])
            self._count(self.days.setdefault(first, Day()), then - self.now_s)
            self.now_s = then

    def hold(self, begin_s: int, end_s: int) -> None:
        """A GPU is held from a second until right before another."""
        self.go_to(begin_s)
        heapq.heappush(self.held, end_s)

    def wait(self, begin_s: int, end_s: int, gpus: int) -> None:
        """GPUs are waited for."""
        self.go_to(begin_s)
        heapq.heappush(self.waits, (end_s, gpus))
        self.waiting += gpus

    def changes_s(self) -> int:
        """When the guarantee changes next; far away where it does not."""
        return self.promised[-1][0] if self.promised else 2**62

    def _settle(self) -> None:
        while self.held and self.held[0] <= self.now_s:
            heapq.heappop(self.held)
        while self.waits and self.waits[0][0] <= self.now_s:
            self.waiting -= heapq.heappop(self.waits)[1]
        while self.promised and self.promised[-1][0] <= self.now_s:
            self.guaranteed += self.promised.pop()[1]

    def _count(self, day: Day, span_s: int) -> None:
        held = len(self.held)
        short = max(0, self.guaranteed - held)
        day.used += held * span_s
        day.unused += short * span_s
        day.waited += self.waiting * span_s
        day.caused += min(self.waiting, short) * span_s
        day.guaranteed = max(day.guaranteed, self.guaranteed)
        day.peak = max(day.peak, held)
