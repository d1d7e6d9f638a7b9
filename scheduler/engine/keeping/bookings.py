"""Advance bookings: which nodes they get, and what of them is kept for whom.

Nodes are chosen anew in every cycle, those of the last plan first (`Snapshot.booked_nodes`), so a
booking moves only if one of its nodes goes out of order or will not be free in time. Since nothing
starts that would still be on them when the booking begins, a choice that was good stays good.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.placement import is_capable
from scheduler.engine.plan import SlotKind
from scheduler.engine.reservation import free_at, ready_times
from scheduler.engine.snapshot import (
    NONE,
    Flags,
    Floats,
    Ints,
    Request,
    Snapshot,
    flags,
    floats,
    ints,
)


def within_bookings(snapshot: Snapshot, slack_s: float) -> Snapshot:
    """The snapshot with jobs in bookings ending `slack_s` before these do, if not sooner."""
    bookings = snapshot.bookings
    if not len(bookings.id):
        return snapshot
    held, waiting = snapshot.held, snapshot.waiting
    last_s = np.append(bookings.until_s - slack_s, np.inf)
    stay_s = last_s - np.append(np.maximum(bookings.from_s, snapshot.now_s), 0.0)
    # Who comes too late gets no room; a run time of nothing would be no snapshot.
    remaining_s = np.minimum(waiting.remaining_s, np.maximum(stay_s[waiting.booking], 1.0))
    return replace(
        snapshot,
        held=replace(held, until_s=floats(np.minimum(held.until_s, last_s[held.booking]))),
        waiting=replace(waiting, remaining_s=floats(remaining_s)),
    )


def keep_bookings(board: Board) -> None:
    """Choose the nodes of every booking, the earliest first, and keep them. After the windows."""
    bookings = board.snapshot.bookings
    ready_s: dict[Request, Floats] = {}
    for row in np.lexsort((bookings.id, bookings.from_s)).tolist():
        if bookings.until_s[row] > board.snapshot.now_s:
            board.keeping.enter(_Choice(board, row, ready_s).kept())


@dataclass(frozen=True, slots=True)
class _Choice:
    """One booking (row) and the nodes it may have; `ready_s` by share, for all that ask alike."""

    board: Board
    row: int
    ready_s: dict[Request, Floats]

    def kept(self) -> Kept:
        """What is kept for it; fewer nodes than it wants if no more are in order."""
        board, bookings = self.board, self.board.snapshot.bookings
        from_s, is_whole = float(bookings.from_s[self.row]), self._is_whole
        nodes = ints(np.sort(self._best()[: int(bookings.nodes[self.row])]))
        moment = floats([max(from_s, board.snapshot.now_s)])
        nothing = np.zeros((4, len(nodes)), dtype=np.int64)
        return Kept(
            kind=SlotKind.BOOKING,
            owner=self.row,
            pool=int(bookings.pool[self.row]),
            nodes=nodes,
            need=nothing if is_whole else self._need(nodes),
            from_s=from_s,
            until_s=float(bookings.until_s[self.row]),
            free_then=nothing.copy()
            if is_whole
            else free_at(board, self._request, nodes, moment)[:, :, 0],
            is_whole=is_whole,
            used=None if is_whole else self._used(nodes),
        )

    @property
    def _is_whole(self) -> bool:
        return not self.board.snapshot.bookings.gpus_per_node[self.row]

    @property
    def _request(self) -> Request:
        """One share of it; of a whole node that is the node alone, with a GPU if there are any."""
        bookings, has_gpus = self.board.snapshot.bookings, bool(len(self.board.snapshot.devices.id))
        return Request(
            pool=int(bookings.pool[self.row]),
            queue=0,
            nodes=int(bookings.nodes[self.row]),
            gpus=int(bookings.gpus_per_node[self.row]) or int(has_gpus),
            cpus=0,
            memory_mib=0,
            model=int(bookings.model[self.row]),
            avoid_node=NONE,
            is_exclusive=self._is_whole,
        )

    def _best(self) -> Ints:
        """Nodes it may have: ready in time, then its own, then whole ones, then the soonest.

        Its own that are out of order come last: they may be back in time.
        """
        board, snapshot, request = self.board, self.board.snapshot, self._request
        in_order = is_capable(board, request, board.offered_gpus) & snapshot.nodes.takes_work
        mine = np.zeros_like(in_order)
        mine[snapshot.booked_nodes.node[snapshot.booked_nodes.booking == self.row]] = True
        rows = np.flatnonzero(self._is_open() & (in_order | mine))
        share = replace(request, nodes=1)
        if share not in self.ready_s:
            self.ready_s[share] = ready_times(board, share)
        ready_s = self.ready_s[share]
        in_time_s = max(float(snapshot.bookings.from_s[self.row]), snapshot.now_s)
        held = snapshot.held
        is_ready = (ready_s[rows] <= in_time_s) | np.isin(rows, held.node[held.booking == self.row])
        late_s = np.where(is_ready, 0.0, ready_s[rows])
        missing = board.present_gpus.of(request)[rows] - board.offered_gpus.of(request)[rows]
        return ints(
            rows[np.lexsort((rows, late_s, missing, ~mine[rows], ~is_ready, ~in_order[rows]))]
        )

    def _is_open(self) -> Flags:
        """Such nodes that are not kept for maintenance or another booking while it lasts."""
        board, request, bookings = self.board, self._request, self.board.snapshot.bookings
        total = board.present_gpus.of(request)
        fit = is_capable(board, request, board.present_gpus)
        taken = np.zeros_like(total)
        for one in board.keeping.of_pool(request.pool):
            if one.from_s >= bookings.until_s[self.row] or one.until_s <= bookings.from_s[self.row]:
                continue
            if one.is_whole or request.is_exclusive:
                fit[one.nodes] = False
            else:
                taken[one.nodes] += one.need[0]
        return flags(fit & (total - taken >= request.gpus))

    def _need(self, nodes: Ints) -> Ints:
        """GPUs of each node, and as large a part of its cpus, memory and scratch."""
        table, request = self.board.snapshot.nodes, self._request
        gpus = ints(np.full(len(nodes), request.gpus))
        whole = np.maximum(self.board.present_gpus[NONE][nodes], 1)
        totals = (table.cpus_total, table.memory_total_mib, table.scratch_total_mib)
        parts = [total[nodes] * gpus // whole for total in totals]
        return np.array([gpus, *parts], dtype=np.int64).reshape(4, len(nodes))

    def _used(self, nodes: Ints) -> Ints:
        """What its own jobs hold of these nodes."""
        return held_by(self.board, flags(self.board.snapshot.held.booking == self.row))[:, nodes]


def held_by(board: Board, chosen: Flags) -> Ints:
    """GPUs, cpus, memory and scratch that these rows of `Held` have, by node."""
    snapshot, size = board.snapshot, len(board.snapshot.nodes.id)
    held, devices = snapshot.held, snapshot.devices
    has = np.append(chosen, False)
    node = held.node[chosen]
    amounts = [held.cpus, held.memory_mib, held.scratch_mib]
    gpus = np.bincount(devices.node[has[board.holder]], minlength=size)
    rest = [np.bincount(node, weights=column[chosen], minlength=size) for column in amounts]
    return np.array([gpus, *rest], dtype=np.int64)
