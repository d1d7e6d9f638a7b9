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
from scheduler.engine.freeing import Freeing, ready_times
from scheduler.engine.placement import is_capable
from scheduler.engine.plan import SlotKind
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
    """The snapshot with jobs in bookings ending `slack_s` before these do, if not sooner, and
    asking for the GPUs that are booked."""
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
        waiting=replace(
            waiting,
            remaining_s=floats(remaining_s),
            model=_narrowed(snapshot),
        ),
    )


def _narrowed(snapshot: Snapshot) -> Ints:
    """By waiting job the model, or set of models, that it takes.

    Of a node booked in part, who takes more models than are booked gets none that is not.
    """
    bookings, accepts, model = snapshot.bookings, snapshot.accepts(), snapshot.waiting.model.copy()
    in_part = np.append(bookings.gpus_per_node > 0, False)
    rows = np.flatnonzero(in_part[snapshot.waiting.booking])
    booked = bookings.model[snapshot.waiting.booking[rows]]
    is_within = ~(accepts[booked] & ~accepts[model[rows]]).any(axis=1)
    is_less = is_within & (accepts[booked] != accepts[model[rows]]).any(axis=1)
    model[rows[is_less]] = booked[is_less]
    return ints(model)


def keep_bookings(board: Board) -> None:
    """Choose the nodes of every booking, the earliest first, and keep them. After the windows."""
    bookings, held = board.snapshot.bookings, board.snapshot.held
    offers: dict[Request, _Offer] = {}
    booked = board.snapshot.booked_nodes
    had, runs = _by_booking(booked.booking, booked.node), _by_booking(held.booking, held.node)
    for row in np.lexsort((bookings.id, bookings.from_s)).tolist():
        if bookings.until_s[row] > board.snapshot.now_s:
            share = _share_of(board, row)
            if share not in offers:
                offers[share] = _Offer.of(board, share)
            nobody = ints([])
            choice = _Choice(board, row, offers[share], had.get(row, nobody), runs.get(row, nobody))
            board.keeping.enter(choice.kept())


def _by_booking(booking: Ints, node: Ints) -> dict[int, Ints]:
    """The node rows of each booking (row)."""
    order = np.argsort(booking, kind="stable")
    rows, first = np.unique(booking[order], return_index=True)
    parts = np.split(node[order], first[1:]) if len(rows) else []
    return dict(zip(rows.tolist(), map(ints, parts), strict=True))


def _share_of(board: Board, row: int) -> Request:
    """One share of it; of a whole node that is the node alone, with a GPU if there are any."""
    bookings, has_gpus = board.snapshot.bookings, bool(len(board.snapshot.devices.id))
    gpus = int(bookings.gpus_per_node[row])
    return Request(
        pool=int(bookings.pool[row]),
        queue=0,
        nodes=1,
        gpus=gpus or int(has_gpus),
        cpus=0,
        memory_mib=0,
        model=int(bookings.model[row]),
        avoid_node=NONE,
        is_exclusive=not gpus,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Offer:
    """What all that book the same share are told of the nodes, whenever it is for.

    `in_order`: they could hold it as they are; `fit`: once all their devices are in order, of
    which there are `total`, `missing` of them now; `ready_s`: when it would be free; `need`: what
    it takes.
    """

    share: Request
    in_order: Flags
    fit: Flags
    total: Ints
    missing: Ints
    ready_s: Floats
    freeing: Freeing
    need: Ints

    @classmethod
    def of(cls, board: Board, share: Request) -> _Offer:
        """As the board is now."""
        table, total = board.snapshot.nodes, board.present_gpus.of(share)
        whole = np.maximum(board.present_gpus[NONE], 1)
        gpus = np.full(len(whole), share.gpus)
        totals = (table.cpus_total, table.memory_total_mib, table.scratch_total_mib)
        return cls(
            share,
            flags(is_capable(board, share, board.offered_gpus) & table.takes_work),
            is_capable(board, share, board.present_gpus),
            total,
            ints(total - board.offered_gpus.of(share)),
            ready_times(board, share),
            Freeing.of(board, share),
            # GPUs of each node, and as large a part of its cpus, memory and scratch.
            np.array([gpus, *(one * gpus // whole for one in totals)], dtype=np.int64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """One booking (row), the nodes that it had in the last plan, and those where its jobs run."""

    board: Board
    row: int
    offer: _Offer
    had: Ints
    runs: Ints

    def kept(self) -> Kept:
        """What is kept for it; fewer nodes than it wants if no more are in order."""
        board, bookings = self.board, self.board.snapshot.bookings
        from_s, is_whole = float(bookings.from_s[self.row]), self.offer.share.is_exclusive
        nodes = ints(np.sort(self._best()[: int(bookings.nodes[self.row])]))
        moment = floats([max(from_s, board.snapshot.now_s)])
        nothing = np.zeros((4, len(nodes)), dtype=np.int64)
        return Kept(
            kind=SlotKind.BOOKING,
            owner=self.row,
            pool=int(bookings.pool[self.row]),
            nodes=nodes,
            need=nothing if is_whole else self.offer.need[:, nodes],
            from_s=from_s,
            until_s=float(bookings.until_s[self.row]),
            free_then=nothing.copy() if is_whole else self.offer.freeing.at(nodes, moment)[:, :, 0],
            is_whole=is_whole,
            used=None if is_whole else self._used(nodes),
            model=self.offer.share.model,
        )

    def _best(self) -> Ints:
        """Nodes it may have: ready in time, then its own, then whole ones, then the soonest.

        Its own that are out of order come last: they may be back in time.
        """
        snapshot, offer = self.board.snapshot, self.offer
        mine = np.zeros_like(offer.in_order)
        mine[self.had] = True
        rows = np.flatnonzero(self._is_open() & (offer.in_order | mine))
        in_time_s = max(float(snapshot.bookings.from_s[self.row]), snapshot.now_s)
        is_ready = offer.ready_s <= in_time_s
        is_ready[self.runs] = True
        late_s = np.where(is_ready, 0.0, offer.ready_s)
        keys = (late_s, offer.missing, ~mine, ~is_ready, ~offer.in_order)
        return ints(rows[np.lexsort((rows, *(key[rows] for key in keys)))])

    def _is_open(self) -> Flags:
        """Such nodes that are not kept for maintenance or another booking while it lasts."""
        bookings, share = self.board.snapshot.bookings, self.offer.share
        span = float(bookings.from_s[self.row]), float(bookings.until_s[self.row])
        taken, (is_shut, is_kept) = self.board.keeping.taken(share.pool, *span)
        is_taken = is_kept if share.is_exclusive else is_shut
        # Those of any model get what those of its own leave, whichever that is.
        left = self.board.present_gpus[NONE] - taken
        if share.model != NONE:
            of_it, _ = self.board.keeping.taken(share.pool, *span, share.model)
            left = np.minimum(left, self.offer.total - of_it)
        return flags(self.offer.fit & ~is_taken & (left >= share.gpus))

    def _used(self, nodes: Ints) -> Ints:
        """What its own jobs hold of these nodes."""
        if not len(self.runs):
            return np.zeros((4, len(nodes)), dtype=np.int64)
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
