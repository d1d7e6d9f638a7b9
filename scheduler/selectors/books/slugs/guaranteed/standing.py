"""A team's GPUs moment by moment: what it holds, is guaranteed and waits for, counted by day."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from scheduler.ledger.rating import DAY_S

# What is guaranteed, or waited for, of whatever model.
ANY = ""


@dataclass(slots=True)
class Day:
    """GPU-seconds of a day; `guaranteed` and `peak` are the most GPUs at one moment.

    `within` of `used` is what the guarantee covered at each moment, `unused` what it was more than
    that: together they are `promised`.
    """

    promised: int = 0
    used: int = 0
    within: int = 0
    unused: int = 0
    waited: int = 0
    caused: int = 0
    guaranteed: int = 0
    peak: int = 0


@dataclass(slots=True)
class Standing:
    """A team's GPUs of one model, or of all, moment by moment. Told what begins, in order of time.

    `promised`: (second, model, GPUs more or fewer), the latest first. What named models are
    guaranteed covers these alone, what is guaranteed of any whatever they leave.
    """

    now_s: int
    promised: list[tuple[int, str, int]]
    held: list[tuple[int, str]] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    waiting: int = 0
    holding: dict[str, int] = field(default_factory=dict)
    guaranteed: dict[str, int] = field(default_factory=dict)
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
                then = min(then, self.held[0][0])
            if self.waits:
                then = min(then, self.waits[0][0])
            self._count(self.days.setdefault(first, Day()), then - self.now_s)
            self.now_s = then

    def hold(self, begin_s: int, end_s: int, model: str) -> None:
        """A GPU is held from a second until right before another."""
        self.go_to(begin_s)
        heapq.heappush(self.held, (end_s, model))
        self.holding[model] = self.holding.get(model, 0) + 1

    def wait(self, begin_s: int, end_s: int, gpus: int) -> None:
        """GPUs are waited for."""
        self.go_to(begin_s)
        heapq.heappush(self.waits, (end_s, gpus))
        self.waiting += gpus

    def changes_s(self) -> int:
        """When the guarantee changes next; far away where it does not."""
        return self.promised[-1][0] if self.promised else 2**62

    def _settle(self) -> None:
        while self.held and self.held[0][0] <= self.now_s:
            self.holding[heapq.heappop(self.held)[1]] -= 1
        while self.waits and self.waits[0][0] <= self.now_s:
            self.waiting -= heapq.heappop(self.waits)[1]
        while self.promised and self.promised[-1][0] <= self.now_s:
            _, model, change = self.promised.pop()
            self.guaranteed[model] = self.guaranteed.get(model, 0) + change

    def _count(self, day: Day, span_s: int) -> None:
        held, guaranteed = len(self.held), sum(self.guaranteed.values())
        covered = self._covered(held)
        day.promised += guaranteed * span_s
        day.used += held * span_s
        day.within += covered * span_s
        day.unused += (guaranteed - covered) * span_s
        day.waited += self.waiting * span_s
        day.caused += min(self.waiting, guaranteed - covered) * span_s
        day.guaranteed = max(day.guaranteed, guaranteed)
        day.peak = max(day.peak, held)

    def _covered(self, held: int) -> int:
        """How many of the held GPUs the guarantees have room for."""
        own = sum(
            min(gpus, self.holding.get(model, 0))
            for model, gpus in self.guaranteed.items()
            if model != ANY
        )
        return own + min(self.guaranteed.get(ANY, 0), held - own)
