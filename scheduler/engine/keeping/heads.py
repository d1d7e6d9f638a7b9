"""For whom a pool keeps room: the first of its line that do not fit and are out of patience."""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept, Seeker
from scheduler.engine.keeping.promises import promised_nodes, recall
from scheduler.engine.policy import Policy
from scheduler.engine.reservation import (
    EarliestStart,
    Head,
    can_start,
    earliest_start,
    kept_for,
)
from scheduler.engine.snapshot import NONE, Classes, Flags, Floats, Ints, Request, flags, floats


class Heads:
    """The protected heads `by_pool`, in order, and what earlier cycles promised.

    `_promised`: what is kept by waiting row, until that job's turn has come; `_tried` after that.
    `_was_promised`: waiting rows with a promise, kept or not; they leave those of others alone.
    `_passed`: pools where some other job was served before them.
    """

    def __init__(self, board: Board, policy: Policy) -> None:
        self.by_pool: dict[int, list[Head]] = {}
        self._board = board
        self._policy = policy
        self._of_pool = policy.by_pool(board.snapshot.pools)
        self._promised: dict[int, Kept] = {}
        self._tried: dict[int, Kept] = {}
        self._was_promised: Flags = flags(np.zeros(len(board.snapshot.waiting)))
        self._passed: set[int] = set()

    def recall(self, classes: Classes, order: Ints) -> None:
        """Keep what earlier cycles promised to those who wait, in this order.

        One head alone can always have its nodes of the last cycle again; see `promises.py`.
        """
        snapshot = self._board.snapshot
        keeps = flags([not one.rearranges for one in self._of_pool])
        if self._policy.heads == 1 or not keeps.any():
            return
        order = order[keeps[snapshot.waiting.pool[order]]]
        self._was_promised = np.isin(snapshot.waiting.id, snapshot.promises.job)
        self._promised = recall(self._board, classes, order, self._policy.backfill_slack_s)

    @property
    def has_promised(self) -> bool:
        """Whether anybody has a promise who was not tried yet."""
        return bool(self._promised)

    def is_promised(self, row: int) -> bool:
        """As `are_promised`, of one row."""
        return row in self._promised

    def are_promised(self, rows: Ints) -> Flags:
        """Which of these waiting rows have a promise and were not tried yet."""
        return np.isin(rows, list(self._promised))

    def seeker(self, row: int, request: Request) -> Seeker:
        """The waiting job whose turn it is; what it was promised stands in nobody's way now."""
        promise = self._promised.pop(row, None)
        if promise is not None:
            self._tried[row] = promise
            self._board.keeping.withdraw(promise)
        return Seeker(row, request, is_promised=bool(self._was_promised[row]))

    def is_gone_at_s(self, row: int) -> float:
        """As `gone_s`, of one row."""
        snapshot = self._board.snapshot
        left_s = float(snapshot.waiting.remaining_s[row])
        return snapshot.now_s + left_s + self._policy.backfill_slack_s

    def gone_s(self, rows: Ints) -> Floats:
        """When these waiting rows are surely gone if they start now."""
        snapshot = self._board.snapshot
        ends_s = snapshot.now_s + snapshot.waiting.remaining_s[rows]
        return floats(ends_s + self._policy.backfill_slack_s)

    def protect(self, who: Seeker) -> bool:
        """Keep room for the job if its patience ran out and time limits free enough some day."""
        waiting, now_s = self._board.snapshot.waiting, self._board.snapshot.now_s
        waited_s = now_s - float(waiting.queued_at_s[who.row])
        policy = self._of_pool[who.request.pool]
        if waited_s < policy.head_patience_s or policy.rearranges:
            return False
        if who.request.booking != NONE:
            # Inside a booking its owners decide; what is booked is kept already.
            return False
        # Licences are counted for one head alone.
        is_licensed = who.request.licences != NONE and bool(self.by_pool.get(who.request.pool))
        if is_licensed or not self._has_room_for_head(who.request.pool):
            return False
        stay_s = float(waiting.remaining_s[who.row]) + self._policy.backfill_slack_s
        beside, promise = self._board.keeping.binding(who), self._tried.get(who.row)
        start = earliest_start(self._board, who.request, stay_s, beside)
        if promise is not None and (start is None or start.start_s >= promise.from_s):
            nodes = promised_nodes(self._board.snapshot, who.row)
            promised = EarliestStart(nodes, promise.from_s)
            is_kept = who.request.pool not in self._passed or can_start(
                self._board, who.request, promised, stay_s, beside
            )
            start = promised if is_kept else start
        if start is None:
            return False
        head = Head(who.row, int(waiting.tier[who.row]), start, start.start_s + stay_s)
        self._board.keeping.enter(kept_for(self._board, who.request, head))
        self._board.licences.keep(who.request, start.start_s)
        self.by_pool.setdefault(who.request.pool, []).append(head)
        return True

    def note_passing(self, who: Seeker, *, has_cleared: bool = False) -> None:
        """Who comes first in order need not respect promises to others, nor who `has_cleared` room
        those to lower tiers; then they are checked."""
        if self._promised and (has_cleared or not who.is_promised):
            self._passed.add(who.request.pool)

    def _has_room_for_head(self, pool: int) -> bool:
        """Whether the pool may have one head more, if need be instead of one that comes later."""
        promised = [row for row, one in self._promised.items() if one.pool == pool]
        if len(self.by_pool.get(pool, ())) + len(promised) < self._policy.heads:
            return True
        if promised:
            # They are in order, so the last has the worst place.
            self._board.keeping.withdraw(self._promised.pop(promised[-1]))
        return bool(promised)
