"""Whom to stop so that one job can start: the least lost work that makes room.

Who may go at all is said beforehand: lower tiers, or those who run on what is lent. Nodes are
chosen one after the other, the one where room costs least first; on each, jobs are stopped in the
order of price per GPU until the share fits, a prefix of a sorted column. A gang frees several nodes
for one price: while more nodes are wanted it counts by the part of it that may be used, and once it
is stopped what it held is free of charge. Prices are worked out anew only after a gang was stopped:
nothing else changes those of other nodes. In the end who need not go after all stays, the dearest
first (the reverse delete step of Goemans and Williamson, SIAM J. Comput. 24, 1995, for covers
chosen greedily).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.plan import SlotKind, Stop
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.stakes import lost_work_s, may_stop, stop_price
from scheduler.engine.snapshot import (
    NONE,
    WHOLE_MILLI,
    Flags,
    Floats,
    Ints,
    Request,
    Running,
    flags,
    floats,
    ints,
    rows_by_group,
    running_sum,
)
from scheduler.states import Tier


@dataclass(frozen=True, slots=True, eq=False)
class Clearing:
    """Room for one job: node rows in the order of ranks, and the rows of `Running` to stop."""

    nodes: Ints
    victims: Ints


class Targeting:
    """The live jobs of a snapshot as shares of nodes, to choose victims from.

    Rows of `Held` that a job which may be stopped holds are *shares*; `job` is its row in
    `Running`. `is_gone`: who has been stopped for another job in this cycle. What they leave over
    is not given out again in the same cycle.
    """

    def __init__(self, board: Board, running: Running, policy: Policy) -> None:
        snapshot, jobs = board.snapshot, running.jobs
        self.board = board
        self.running = running
        self.price: Floats = stop_price(running)
        self.lost_s: Floats = lost_work_s(running)
        self.is_gone: Flags = flags(np.zeros(len(jobs)))
        is_whole = jobs.gpu_milli == WHOLE_MILLI
        self._may_stop = flags(may_stop(running, policy) & is_whole)
        self._is_lent = flags(self._on_headroom() & is_whole)
        held, by_id = snapshot.held, np.argsort(jobs.id, kind="stable")
        at = np.searchsorted(jobs.id[by_id], held.job)
        job = by_id[np.minimum(at, len(by_id) - 1)]
        is_live = (jobs.id[job] == held.job) & (self._may_stop | self._is_lent)[job]
        self._held_row: Ints = ints(np.flatnonzero(is_live))
        self.job: Ints = ints(job[is_live])
        self.node: Ints = held.node[self._held_row]
        self._span: Ints = ints(np.bincount(self.job, minlength=len(jobs)))
        self._is_kept: Flags = board.keeping.nodes()
        self._lowest = int(
            jobs.tier[self._may_stop | self._is_lent].min(initial=np.iinfo(np.int64).max)
        )
        self._gpus: dict[int, Ints] = {}

    def outranks_somebody(self, tier: int) -> bool:
        """Whether a job of this tier could stop anyone at all."""
        return tier > self._lowest

    @property
    def may_go(self) -> Flags:
        """By row of `Running`, who may be stopped and has not been yet."""
        return flags(self._may_stop & ~self.is_gone)

    def below(self, tier: int) -> Flags:
        """Who of lower tiers may go; for production also who has not run long on headroom."""
        may_stop = self._may_stop
        if tier >= Tier.PRODUCTION:
            may_stop = flags(may_stop | self._is_lent)
        return flags((self.running.jobs.tier < tier) & may_stop & ~self.is_gone)

    def find(self, request: Request, may_go: Flags, beside: Sequence[Kept] = ()) -> Clearing | None:
        """Where the job can start if some of those who `may_go` stop; None if that is not enough.

        Nodes kept for heads or `beside` are left alone.
        """
        if request.is_share or not request.gpus:
            return None
        self._is_kept = self.board.keeping.nodes(beside)
        shares = ints(np.flatnonzero(may_go[self.job]))
        picked = flags(np.zeros(len(may_go)))
        nodes = ints([])
        for shape in request.shapes():
            chosen = self._choose(shape, shares, picked, nodes)
            if chosen is None:
                return None
            nodes = np.concatenate([nodes, chosen])
        nodes = self._trim(request, picked)
        return Clearing(nodes, ints(np.flatnonzero(picked)))

    def held_rows(self, victims: Ints) -> Ints:
        """The rows of `Held` of these jobs."""
        return self._held_row[np.isin(self.job, victims)]

    def stop(self, victims: Ints, beneficiary: int, facts: Mapping[str, object]) -> list[Stop]:
        """Let these jobs go for good, and say so; `facts` are what spoke for all of it."""
        self.is_gone[victims] = True
        jobs = self.running.jobs
        return [
            Stop(
                int(jobs.id[row]),
                beneficiary,
                facts={
                    **facts,
                    "tier": int(jobs.tier[row]),
                    "lost_s": round(float(self.lost_s[row])),
                },
            )
            for row in victims.tolist()
        ]

    def _on_headroom(self) -> Flags:
        """Live jobs that borrow headroom: production need not wait until they have run a while."""
        board, jobs = self.board, self.running.jobs
        lent = [one.nodes for one in board.keeping if one.kind is SlotKind.HEADROOM]
        if not lent:
            return flags(np.zeros(len(jobs)))
        held = board.snapshot.held
        borrow = held.job[np.isin(held.node, np.concatenate(lent)) & held.uses_headroom]
        return flags(np.isin(jobs.id, borrow) & (jobs.booking == NONE))

    def _choose(self, shape: Request, shares: Ints, picked: Flags, taken: Ints) -> Ints | None:
        """The cheapest nodes for all shares of one shape; enters their victims in `picked`."""
        is_open = self.open_nodes(shape, taken)
        shares = shares[is_open[self.node[shares]]]
        chosen: list[int] = []
        if not self._enough(shape, shares, is_open):
            return None
        while len(chosen) < shape.nodes:
            left = shape.nodes - len(chosen)
            price, first, last, order = self._price_nodes(shape, shares, picked, is_open, left)
            best = np.lexsort((np.arange(len(price)), price))[:left]
            for node in best.tolist():
                if price[node] == np.inf:
                    return None
                chosen.append(node)
                is_open[node] = False
                victims = self.job[order[first[node] : last[node] + 1]]
                is_news = bool(((self._span[victims] > 1) & ~picked[victims]).any())
                picked[victims] = True
                if is_news:
                    break
            shares = shares[is_open[self.node[shares]]]
        return ints(chosen)

    def open_nodes(self, shape: Request, taken: Ints) -> Flags:
        """Nodes of the pool that could hold a share and are not kept for a head or taken."""
        board = self.board
        is_open = is_capable(board, shape, board.offered_gpus) & board.snapshot.nodes.takes_work
        is_open = without_avoided(board, shape, flags(is_open)).copy()
        is_open &= ~self._is_kept
        is_open[taken] = False
        return flags(is_open)

    def _enough(self, shape: Request, shares: Ints, is_open: Flags) -> bool:
        """Whether enough nodes hold a share if all of these shares are given back."""
        node, size = self.node[shares], len(is_open)
        room = is_open.copy()
        for free, freed, need in self.resources(shape, shares):
            room &= free + np.bincount(node, weights=freed, minlength=size) >= need
        return int(np.count_nonzero(room)) >= shape.nodes

    def resources(self, shape: Request, shares: Ints) -> tuple[tuple[Ints, Ints, int], ...]:
        """GPUs, cpus and memory: free by node, given back by share, and needed."""
        board, rows = self.board, self._held_row[shares]
        held = board.snapshot.held
        return (
            (board.free_gpus[shape.model], self._gpus_of(shape.model)[rows], shape.gpus),
            (board.cpus_free, held.cpus[rows], shape.cpus),
            (board.memory_free_mib, held.memory_mib[rows], shape.memory_mib),
        )

    def _gpus_of(self, model: int) -> Ints:
        """Devices of a model that a row of `Held` gives back, if others may have them then."""
        if model not in self._gpus:
            devices, board = self.board.snapshot.devices, self.board
            counts = (devices.holder != NONE) & (devices.claim == NONE) & board.is_offered
            counts &= board.accepts[model][devices.model]
            rows = len(self.board.snapshot.held.job)
            self._gpus[model] = ints(np.bincount(devices.holder[counts], minlength=rows))
        return self._gpus[model]

    def _price_nodes(
        self, shape: Request, shares: Ints, picked: Flags, is_open: Flags, left: int
    ) -> tuple[Floats, Ints, Ints, Ints]:
        """By node: what room for one share costs, inf for never.

        Also the first and last position of its victims in the third result, rows of shares; last
        before first if none has to go.
        """
        job, size = self.job[shares], len(is_open)
        resources = self.resources(shape, shares)
        price = self.price[job] / np.minimum(self._span[job], left)
        price = np.where(picked[job], 0.0, price)
        by_price = np.lexsort((shares, price / np.maximum(resources[0][1], 0.5), self.node[shares]))
        node, order = self.node[shares[by_price]], ints(shares[by_price])
        enough, fits = np.ones(len(node), dtype=np.bool_), is_open.copy()
        for free, freed, need in resources:
            enough &= free[node] + running_sum(freed[by_price], node) >= need
            fits &= free >= need
        where = np.flatnonzero(enough)
        first: Ints = ints(np.searchsorted(node, np.arange(size)))
        last: Ints = np.full(size, len(node), dtype=np.int64)
        np.minimum.at(last, node[where], where)
        cost = np.append(running_sum(price[by_price], node), np.inf)[last]
        last[fits] = first[fits] - 1
        return floats(np.where(fits, 0.0, np.where(is_open, cost, np.inf))), first, last, order

    def _trim(self, request: Request, picked: Flags) -> Ints:
        """Take out of `picked` who need not go, the dearest first; returns the nodes to take.

        The nodes may be others than those chosen before: a gang that goes frees some that cost
        nothing more. Whoever is left has a share on one of the nodes, or it would not be needed.
        """
        shapes, rows = request.shapes(), ints(np.flatnonzero(picked[self.job]))
        fronts = [_Front(self, shape, rows) for shape in shapes]
        rows_of = dict(rows_by_group(self.job[rows]))
        for job in sorted(rows_of, key=lambda row: (-float(self.price[row]), row)):
            for front in fronts:
                front.give_back(rows_of[job])
            if _are_enough(fronts, request):
                picked[job] = False
                continue
            for front in fronts:
                front.take(rows_of[job])
        nodes = ints([])
        for front, shape in zip(fronts, shapes, strict=True):
            nodes = np.concatenate([nodes, np.sort(front.tightest(nodes)[: shape.nodes])])
        return ints(nodes)


class _Front:
    """Which nodes hold one share of a shape once some jobs are gone, as these come and go."""

    def __init__(self, targeting: Targeting, shape: Request, rows: Ints) -> None:
        self._node = targeting.node[rows]
        self._is_open = targeting.open_nodes(shape, ints([]))
        size, resources = len(self._is_open), targeting.resources(shape, rows)
        self._freed = [freed for _, freed, _ in resources]
        self._slack = [
            free - need + np.bincount(self._node, weights=freed, minlength=size)
            for free, freed, need in resources
        ]

    @property
    def room(self) -> Flags:
        """The nodes that hold a share now."""
        return flags(self._is_open & (np.minimum.reduce(self._slack) >= 0))

    def give_back(self, rows: Ints) -> None:
        """Let these rows of shares stay after all."""
        for slack, freed in zip(self._slack, self._freed, strict=True):
            np.subtract.at(slack, self._node[rows], freed[rows])

    def take(self, rows: Ints) -> None:
        """Let these rows of shares go."""
        for slack, freed in zip(self._slack, self._freed, strict=True):
            np.add.at(slack, self._node[rows], freed[rows])

    def tightest(self, taken: Ints) -> Ints:
        """The nodes with room, those with the fewest GPUs left over first."""
        room = self.room
        room[taken] = False
        nodes = np.flatnonzero(room)
        return ints(nodes[np.lexsort((nodes, self._slack[0][nodes]))])


def _are_enough(fronts: list[_Front], request: Request) -> bool:
    """Whether the nodes with room hold all shares; what holds a whole one holds the part too."""
    counts = [int(np.count_nonzero(front.room)) for front in fronts]
    return counts[0] >= request.nodes and counts[-1] >= request.nodes + len(fronts) - 1
