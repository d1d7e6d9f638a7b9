"""Licences as countable tokens: how many are free, when more come back, what is kept."""

from __future__ import annotations

from copy import copy

import numpy as np

from scheduler.engine.snapshot import NONE, Floats, Ints, Request, Snapshot, floats, ints

_ENOUGH = 2**40


class Licences:
    """Free tokens by licence. Tokens are the whole cluster's, whatever the pool.

    `needs[row]` is what a licence set asks for, by licence; the last row asks for nothing.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        tokens, count = snapshot.tokens, len(snapshot.licences)
        self.needs: Ints = np.zeros((len(snapshot.licence_sets) + 1, count), dtype=np.int64)
        for row, members in enumerate(snapshot.licence_sets):
            for licence, asked in members:
                self.needs[row, licence] += asked
        used = np.bincount(tokens.licence, weights=tokens.count, minlength=count)
        # A licence whose total was lowered has none to give until enough are back.
        self.free: Ints = ints(np.maximum(0, snapshot.licence_total - used.astype(np.int64)))
        self._debt: Ints = ints(np.maximum(0, used.astype(np.int64) - snapshot.licence_total))
        self._now_s = snapshot.now_s
        self._licence: Ints = tokens.licence
        self._count: Ints = tokens.count
        self._until_s: Floats = tokens.until_s
        self._kept: list[tuple[int, Ints]] = []

    def copied(self) -> Licences:
        """The same tokens, to be taken by itself."""
        other = copy(self)
        other.free, other._kept = self.free.copy(), [(pool, one.copy()) for pool, one in self._kept]
        return other

    def hold(self, request: Request, *, past_reservations: bool) -> bool:
        """Whether the request's tokens are there now.

        What is kept for the head of another pool is never there: only the own pool's jobs are
        known to be gone before its head starts.
        """
        if request.licences == NONE:
            return True
        need = self.needs[request.licences]
        if (need > self.free).any():
            return False
        return not any(
            (need > spare).any()
            for pool, spare in self._kept
            if pool != request.pool or not past_reservations
        )

    def ready_s(self, request: Request) -> float:
        """When enough tokens are back, taking time limits as ends; infinite for never."""
        if request.licences == NONE:
            return self._now_s
        need, ready_s = self.needs[request.licences], self._now_s
        for licence in np.flatnonzero(need > self.free).tolist():
            mine = self._licence == licence
            order = np.argsort(self._until_s[mine], kind="stable")
            back = self._count[mine][order].cumsum() - self._debt[licence]
            enough = self.free[licence] + back >= need[licence]
            if not enough.any():
                return float(np.inf)
            ready_s = max(ready_s, float(self._until_s[mine][order][int(enough.argmax())]))
        return ready_s

    def supply(self, licence: int) -> tuple[tuple[float, int], ...]:
        """Tokens of one licence and when they are there, the first now: less than none where more
        are out than there are. Time limits are taken as ends."""
        mine = self._licence == licence
        free = int(self.free[licence] - self._debt[licence])
        back = zip(self._until_s[mine].tolist(), self._count[mine].tolist(), strict=True)
        return ((self._now_s, free), *back)

    def take(self, request: Request, until_s: float, *, uses_spare: bool) -> None:
        """The request holds its tokens until `until_s`."""
        if request.licences == NONE:
            return
        need = self.needs[request.licences]
        taken = ints(np.flatnonzero(need))
        self.free -= need
        self._licence = np.concatenate([self._licence, taken])
        self._count = np.concatenate([self._count, need[taken]])
        self._until_s = floats(np.concatenate([self._until_s, np.full(len(taken), until_s)]))
        for pool, spare in self._kept:
            if uses_spare or pool != request.pool:
                spare -= need

    def keep(self, request: Request, start_s: float) -> None:
        """Let others have only what the head leaves over of its licences when it starts."""
        if request.licences == NONE:
            return
        need = self.needs[request.licences]
        gone = self._until_s <= start_s
        back = np.bincount(
            self._licence[gone], weights=self._count[gone], minlength=len(self.free)
        ).astype(np.int64)
        spare = self.free + back - self._debt - need
        spare[need == 0] = _ENOUGH
        self._kept.append((request.pool, ints(spare)))
