"""Room that is kept from some time on: for whom, on which nodes, from when and until when.

Free capacity of a node only grows as jobs end, except where something that is kept begins. So a
job that fits now, and at the beginning of everything kept before its own end, fits all the way.
The step function of free capacity need be known at those moments only: as many as things are
kept, however many jobs run.

Amounts are arrays whose first axis is GPUs, cpus, memory, scratch; the second is nodes, and a
third, if there is one, moments.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.engine.board.amounts import hold, need_of
from scheduler.engine.board.cells import Cells
from scheduler.engine.plan import SlotKind
from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, Request, floats, ints


@dataclass(frozen=True, slots=True)
class Seeker:
    """A waiting job (row) that looks for room; `is_promised`: a start in an
    earlier cycle, which it may have lost since."""

    row: int
    request: Request
    is_promised: bool = False


@dataclass(slots=True, eq=False)
class Kept:
    """Amounts `need` of `nodes` (rows, ascending) from `from_s` until `until_s`.

    `owner`: the waiting row of a head, else the row in its table of the calendar. `is_promise`:
    from an earlier cycle, for a job whose turn has not come yet. `free_then`: what the nodes have
    free at `from_s`, other things kept aside; starts are charged to it. `used`: what those whom it
    does not bind have of it already. `is_whole`: it leaves nothing to others, whatever is free, so
    it is not charged. `model`: of which its GPUs are, as in a request.
    `tenant`: whose cards the nodes' are then.
    """

    kind: SlotKind
    owner: int
    pool: int
    nodes: Ints
    need: Ints
    from_s: float
    until_s: float
    free_then: Ints
    is_promise: bool = False
    is_whole: bool = False
    tenant: int = NONE
    model: int = NONE
    used: Ints | None = None
    overlaps: list[tuple[Kept, Ints]] = field(default_factory=list)

    def binds(self, who: Seeker) -> bool:
        """Whether this waiting job has to leave it alone.

        A promise whose turn has not come yet may be taken by who comes first in order, but not by
        another that was promised a start as well and only wants a better one.
        """
        if self.kind is SlotKind.HEAD:
            return self.owner != who.row and (who.is_promised or not self.is_promise)
        return not self.serves(who.request)

    def serves(self, request: Request) -> bool:
        """Whether it is kept for just such jobs: those of a booking, or who may use headroom."""
        if self.kind is SlotKind.BOOKING:
            return self.owner == request.booking
        return self.kind is SlotKind.HEADROOM and request.uses_headroom

    @property
    def is_of_model(self) -> bool:
        """Whether devices of one model are booked, of others on the same nodes none."""
        return self.kind is SlotKind.BOOKING and self.model != NONE and not self.is_whole

    def spare(self, beside: Container[Kept]) -> Ints:
        """By node, what is left at `from_s` of it and of those `beside` it."""
        left = self.free_then - self.left
        for other, taken in self.overlaps:
            if other in beside:
                left = left - taken
        return left

    @property
    def left(self) -> Ints:
        """What nobody has taken up yet of what is kept, by node."""
        return self.need if self.used is None else np.maximum(self.need - self.used, 0)

    def copied(self) -> Kept:
        """Its own to be charged; who meets it is to be told anew. What leaves nothing to others is
        never charged."""
        used = None if self.used is None else self.used.copy()
        return replace(self, free_then=self.free_then.copy(), used=used, overlaps=[])

    def taken_from(self, nodes: Ints, *, in_gpus: bool = True) -> Ints:
        """What it takes of each of these nodes (rows, any order); whether its GPUs count."""
        taken = np.zeros((len(self.need), len(nodes)), dtype=np.int64)
        at = np.minimum(np.searchsorted(self.nodes, nodes), max(0, len(self.nodes) - 1))
        shared = np.flatnonzero(self.nodes[at] == nodes) if len(self.nodes) else ints([])
        taken[:, shared] = self.need[:, at[shared]]
        taken[0] *= in_gpus
        return taken


class Keeping:
    """All that is kept on a cluster of `size` nodes; changes as heads are found and jobs start.

    `slack_s`: how much earlier than something kept begins others have to be gone. `accepts`: by
    model or set of models, the last row any, whether it takes each model; None: there is but one.
    """

    def __init__(self, size: int, accepts: Flags | None = None) -> None:
        self.slack_s = 0.0
        many = np.ones((1, 1), dtype=np.int64) if accepts is None else accepts.astype(np.int64)
        self._meets: Flags = np.asarray(many @ many.T > 0)
        self._size = size
        # By pool and the number under which each was entered, in that order.
        self._by_pool: dict[int, dict[int, Kept]] = {}
        self._cells: dict[int, Cells] = {}
        self._begins: dict[int, tuple[Sequence[Kept], Floats]] = {}
        self._entered = 0
        self._booked: dict[int, Kept] = {}
        # Pools of which a part of some node was ever kept: wholes say nothing to each other.
        self._in_parts: set[int] = set()

    def copied(self) -> Keeping:
        """Another one that keeps the same, and changes by itself."""
        other, new = copy(self), dict[Kept, Kept]()
        for kept in self._by_pool.values():
            new |= {one: one if one.is_whole else one.copied() for one in kept.values()}
        for old, one in new.items():
            if not one.is_whole:
                one.overlaps = [(new[beside], taken) for beside, taken in old.overlaps]
        other._by_pool = {
            pool: {number: new[one] for number, one in kept.items()}
            for pool, kept in self._by_pool.items()
        }
        other._cells = {pool: cells.copied() for pool, cells in self._cells.items()}
        other._booked = {row: new[one] for row, one in self._booked.items()}
        other._begins, other._in_parts = {}, set(self._in_parts)
        return other

    def __iter__(self) -> Iterator[Kept]:
        return (one for kept in self._by_pool.values() for one in kept.values())

    def of_pool(self, pool: int) -> Collection[Kept]:
        """In the order in which it was entered."""
        return self._by_pool.get(pool, {}).values()

    def taken(
        self, pool: int, from_s: float, until_s: float, model: int = NONE
    ) -> tuple[Ints, Flags]:
        """As `Cells.taken`, of what is kept of the pool meanwhile."""
        return self._cells.get(pool, Cells()).taken(self._size, from_s, until_s, model)

    def may_meet(self, one: Kept, model: int) -> bool:
        """Whether a device of the model, or of the set, can be one of those kept."""
        return bool(self._meets[one.model, model])

    def nodes(self, beside: Sequence[Kept] | None = None) -> Flags:
        """Nodes of which anything is kept; with `beside`, of that and for heads in turn."""
        chosen = np.zeros(self._size, dtype=np.bool_)
        heads = (one for one in self if one.kind is SlotKind.HEAD and not one.is_promise)
        for one in self if beside is None else (*beside, *heads):
            chosen[one.nodes] = True
        return chosen

    def binding(self, who: Seeker, until_s: float = np.inf) -> list[Kept]:
        """What a job that is there until then has to leave alone."""
        pool = who.request.pool
        if pool not in self._begins:
            every = tuple(self.of_pool(pool))
            self._begins[pool] = every, floats([one.from_s for one in every])
        kept, begins = self._begins[pool]
        met = np.flatnonzero(begins < until_s).tolist()
        return [kept[row] for row in met if kept[row].binds(who)]

    def allows(
        self,
        request: Request,
        beside: Sequence[Kept],
        cut: Flags | None,
        elsewhere: Ints | None = None,
    ) -> Flags:
        """Nodes where one share leaves all of `beside` what it needs when it begins.

        `cut`: nodes with cards that tenants do not share, None if there are none. `elsewhere`: by
        node, the free devices for the share of models that none of `beside` has booked, None if
        none is booked by its model.
        """
        allowed = np.ones(self._size, dtype=np.bool_)
        shut = [one.nodes for one in beside if one.is_whole or request.is_exclusive]
        if shut:
            allowed[np.concatenate(shut)] = False
        others = frozenset(beside)
        for one in beside:
            if one.is_whole or request.is_exclusive:
                continue
            meets = self.may_meet(one, request.model)
            spare = one.spare(others)
            fit = hold(spare, request, in_gpus=meets)
            if elsewhere is not None and one.is_of_model:
                is_past = elsewhere[one.nodes] >= request.gpus
                fit |= hold(spare, request, in_gpus=False) & is_past
            allowed[one.nodes] &= fit
            if cut is not None and meets and one.tenant != request.tenant:
                # On a cut card, what is to spare for one tenant is not for another.
                allowed[one.nodes] &= ~cut[one.nodes]
        return allowed

    def enter(self, one: Kept) -> None:
        """Keep it from now on, and note how it and the others meet."""
        kept = self._by_pool.setdefault(one.pool, {})
        cells = self._cells.setdefault(one.pool, Cells())
        takes = bool(one.need.any())
        # Of a thousand windows none takes a part that another would have to know of.
        if takes or one.pool in self._in_parts:
            mine = np.zeros(self._size, dtype=np.bool_)
            mine[one.nodes] = True
            for number in cells.meeting(mine, one.from_s, one.until_s):
                meets = self.may_meet(one, kept[number].model)
                _meet(one, kept[number], in_gpus=meets)
                _meet(kept[number], one, in_gpus=meets)
        if takes:
            self._in_parts.add(one.pool)
        self._entered += 1
        self._begins.pop(one.pool, None)
        kept[self._entered] = one
        span = (one.from_s, one.until_s)
        gpus, number = ints(one.need[0]), self._entered
        cells.add(number, one.nodes, gpus, span, is_whole=one.is_whole, model=one.model)
        if one.kind is SlotKind.BOOKING:
            self._booked[one.owner] = one

    def at(self, pool: int, node: int) -> list[Kept]:
        """What is kept of a node, whenever."""
        kept = self._by_pool.get(pool)
        return [kept[number] for number in self._cells[pool].at(node, np.inf)] if kept else []

    def booked_nodes(self, booking: int) -> Flags:
        """The nodes of a booking (row), begun or not."""
        chosen = np.zeros(self._size, dtype=np.bool_)
        if booking in self._booked:
            chosen[self._booked[booking].nodes] = True
        return chosen

    def holds_inside(self, request: Request, now_s: float) -> Flags:
        """Where the booking of the request has room left for one share now; nowhere before it
        begins, and when it is about to end.
        """
        fit = np.zeros(self._size, dtype=np.bool_)
        one = self._booked.get(request.booking)
        if one is not None and one.from_s <= now_s < one.until_s - self.slack_s:
            # The whole of a node is limited by what is free of it alone.
            fit[one.nodes] = one.is_whole or (not request.is_exclusive and hold(one.left, request))
        return fit

    def withdraw(self, one: Kept) -> None:
        """Keep it no more."""
        kept = self._by_pool[one.pool]
        self._begins.pop(one.pool, None)
        number = next(number for number, other in kept.items() if other is one)
        del kept[number]
        self._cells[one.pool].remove(number)
        for other in kept.values():
            other.overlaps = [pair for pair in other.overlaps if pair[0] is not one]
        one.overlaps = []

    def charge(self, pool: int, shares: Iterable[tuple[int, Request]], until_s: float) -> None:
        """A job has started on these nodes and is gone by `until_s`."""
        kept = self._by_pool.get(pool)
        if not kept:
            return
        for node, share in shares:
            for number in self._cells[pool].at(node, until_s):
                one = kept[number]
                if one.is_whole:
                    continue
                at = int(np.searchsorted(one.nodes, node))
                taken = need_of(share)
                taken[0] *= self.may_meet(one, share.model)
                one.free_then[:, at] -= taken
                if one.used is not None and one.serves(share):
                    one.used[:, at] += taken


def _meet(one: Kept, other: Kept, *, in_gpus: bool) -> None:
    """If the other holds when `one` begins, note what it takes of the nodes of both."""
    if not one.is_whole and other.from_s <= one.from_s < other.until_s:
        taken = other.taken_from(one.nodes, in_gpus=in_gpus)
        if taken.any():
            one.overlaps.append((other, taken))
