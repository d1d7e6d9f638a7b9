"""Who is admitted: step 6 of `plan_cycle`."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable
from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.gang import choose_nodes, holds_gang, start_gang
from scheduler.engine.plan import Start, Stop
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.claiming import take_cleared
from scheduler.engine.preempting.targeting import Targeting
from scheduler.engine.reservation import Head, earliest_start, keep_for
from scheduler.engine.shaping.sizes import least_size
from scheduler.engine.snapshot import (
    Classes,
    Flags,
    Ints,
    Request,
    flags,
    ints,
    rows_by_group,
)

# Stops of one cycle; the next one follows in a moment, and sees what has become of them.
MOST_STOPS = 512


class Admission:
    """A *place* is a position in `order`; `heads` has the protected head of each pool."""

    def __init__(self, board: Board, classes: Classes, order: Ints, policy: Policy) -> None:
        self.board = board
        self.classes = classes
        self.order = order
        self.policy = policy
        self.starts: list[Start] = []
        self.stops: list[Stop] = []
        self.heads: dict[int, Head] = {}
        self._targeting: Targeting | None = None
        self.is_started = flags(np.zeros(len(order)))
        self._places: dict[int, Ints] = {}

    def place(self, placed: Iterable[tuple[int, Ints]]) -> None:
        """Start the jobs (rows) that have their nodes already, if their devices are there."""
        for row, nodes in placed:
            request = self.classes.requests[int(self.classes.of_job[row])]
            if holds_gang(self.board, request, nodes):
                place = int(np.flatnonzero(self.order == row)[0])
                self._start(place, row, request, nodes, uses_spare=False)

    def admit(self, ruled_out: Container[int]) -> None:
        """Try the first job of every open class, the one with the best place first.

        Equals trying every job in order: a class that does not fit is closed for the rest of the
        cycle, because the board only shrinks.
        """
        open_places = ints(np.flatnonzero(~self.is_started))
        groups = rows_by_group(self.classes.of_job[self.order[open_places]])
        self._places = {class_row: open_places[rows] for class_row, rows in groups}
        heap = [
            (int(places[0]), class_row, 0)
            for class_row, places in self._places.items()
            if class_row not in ruled_out
        ]
        heapq.heapify(heap)
        while heap:
            place, class_row, turn = heapq.heappop(heap)
            turn = self._try(place, class_row, turn)
            if turn >= 0:
                heapq.heappush(heap, (int(self._places[class_row][turn]), class_row, turn))

    def _try(self, place: int, class_row: int, turn: int) -> int:
        """Start the job if it fits; returns the next turn of its class, -1 when it is closed."""
        request = self.classes.requests[class_row]
        row = int(self.order[place])
        head = self.heads.get(request.pool)
        nodes = choose_nodes(self.board, request, past_reservations=True)
        if nodes is None:
            if self._clear(place, row, request):
                return turn + 1 if turn + 1 < len(self._places[class_row]) else -1
            if head is None:
                self._protect(row, request)
            return -1
        is_short = head is not None and bool(self._ends_before(head, ints([row]))[0])
        if head is not None and not is_short:
            nodes = choose_nodes(self.board, request, past_reservations=False)
        if nodes is not None:
            self._start(place, row, request, nodes, uses_spare=not is_short)
            return turn + 1 if turn + 1 < len(self._places[class_row]) else -1
        assert head is not None
        # It fits but for the reservation: only jobs of this class that end in time may still pass.
        later = self._places[class_row][turn + 1 :]
        in_time = np.flatnonzero(self._ends_before(head, self.order[later]))
        return turn + 1 + int(in_time[0]) if len(in_time) else -1

    def _start(
        self, place: int, row: int, request: Request, nodes: Ints, *, uses_spare: bool
    ) -> None:
        snapshot = self.board.snapshot
        job, run_s = int(snapshot.waiting.id[row]), float(snapshot.waiting.remaining_s[row])
        until_s = snapshot.now_s + run_s
        self.starts.append(
            start_gang(self.board, job, request, nodes, until_s, uses_spare=uses_spare)
        )
        self.is_started[place] = True

    def _clear(self, place: int, row: int, request: Request) -> bool:
        """Stop jobs of lower tiers for it, if the policy lets it and that makes room."""
        snapshot, running = self.board.snapshot, self.board.snapshot.running
        if running is None or not self.policy.stops_lower_tiers or not len(running.jobs):
            return False
        if self._targeting is None:
            self._targeting = Targeting(self.board, running, self.policy)
        # Whom to stop is found by counting; what counts do not tell is not stopped for.
        if not request.is_counted or self.board.cards.matter:
            return False
        targeting, tier = self._targeting, int(snapshot.waiting.tier[row])
        if len(self.stops) >= MOST_STOPS or not targeting.outranks_somebody(tier):
            return False
        least = least_size(snapshot, request)
        request = replace(request, nodes=least, nodes_min=0) if request.nodes_min else request
        clearing = targeting.find(request, tier)
        if clearing is None:
            return False
        job = int(snapshot.waiting.id[row])
        until_s = snapshot.now_s + float(snapshot.waiting.remaining_s[row])
        leaving = targeting.held_rows(clearing.victims)
        self.starts.append(take_cleared(self.board, job, request, clearing.nodes, leaving, until_s))
        self.stops += targeting.stop(clearing.victims, job, tier)
        self.is_started[place] = True
        return True

    def _protect(self, row: int, request: Request) -> None:
        """Keep room for the job if its patience ran out and time limits free enough some day."""
        snapshot = self.board.snapshot
        waited_s = snapshot.now_s - float(snapshot.waiting.queued_at_s[row])
        if waited_s < self.policy.head_patience_s or self.policy.rearranges:
            return
        start = earliest_start(self.board, request)
        if start is not None:
            keep_for(self.board, request, start)
            self.heads[request.pool] = Head(row, int(snapshot.waiting.tier[row]), start)

    def _ends_before(self, head: Head, rows: Ints) -> Flags:
        """Which waiting rows are gone before the head needs its nodes."""
        snapshot = self.board.snapshot
        ends_s = snapshot.now_s + snapshot.waiting.remaining_s[rows]
        return flags(ends_s + self.policy.backfill_slack_s <= head.start.start_s)
