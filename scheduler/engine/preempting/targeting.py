"""Whom to stop so that one job can start: the least lost work that makes room.

Who may go at all is said beforehand: lower tiers, or those who run on what is lent. Nodes are
chosen one after the other, the one where room costs least first (`pricing/`). A gang frees
several nodes for one price: while more nodes are wanted it counts by the part of it that may be
used, and once it is stopped what it held is free of charge. Prices are worked out anew only after a
gang was stopped: nothing else changes those of other nodes. In the end who need not go after all
stays, the dearest first (the reverse delete step of Goemans and Williamson, SIAM J. Comput. 24,
1995, for covers chosen greedily).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.placement import is_capable, without_avoided
from scheduler.engine.plan import SlotKind, Stop
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.pricing.cheapest import Cheapest, GaveUp
from scheduler.engine.preempting.pricing.fronts import Front, are_enough
from scheduler.engine.preempting.pricing.sums import Prices, Shares
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
    of_any_queue,
    rows_by_group,
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
    `Running`. `is_gone`: who has been stopped for another job in this cycle, `departures`: how
    often somebody was. What they leave over is not given out again in the same cycle.
    """

    def __init__(self, board: Board, running: Running, policy: Policy) -> None:
        snapshot, jobs = board.snapshot, running.jobs
        self.board = board
        self.running = running
        self.price: Floats = stop_price(running)
        self.lost_s: Floats = lost_work_s(running)
        self.is_gone: Flags = flags(np.zeros(len(jobs)))
        self.departures = 0
        is_whole = jobs.gpu_milli == WHOLE_MILLI
        self._may_stop = flags(may_stop(running, policy) & is_whole)
        # By row of `Running`, who may be stopped and has not been yet.
        self.may_go: Flags = self._may_stop
        self._is_lent = flags(self._on_headroom() & is_whole)
        held, by_id = snapshot.held, np.argsort(jobs.id, kind="stable")
        at = np.searchsorted(jobs.id[by_id], held.job)
        job = by_id[np.minimum(at, len(by_id) - 1)]
        is_live = (jobs.id[job] == held.job) & (self._may_stop | self._is_lent)[job]
        live = np.flatnonzero(is_live)
        self._held_row: Ints = ints(live[np.argsort(held.node[live], kind="stable")])
        self.job: Ints = ints(job[self._held_row])
        self.node: Ints = held.node[self._held_row]
        self._span: Ints = ints(np.bincount(self.job, minlength=len(jobs)))
        self._by_job: Ints = ints(np.argsort(self.job, kind="stable"))
        self._first_of: Ints = ints(np.append(0, np.cumsum(self._span)))
        self._is_kept: Flags = board.keeping.nodes()
        self._lowest = int(
            jobs.tier[self._may_stop | self._is_lent].min(initial=np.iinfo(np.int64).max)
        )
        self._gpus: dict[int, Ints] = {}
        self._shares: dict[int, Shares] = {}
        self._prices: dict[tuple[int, int], Prices] = {}
        self._cheapest: dict[int, Cheapest] = {}
        self._able: dict[Request, Flags] = {}

    def outranks_somebody(self, tier: int) -> bool:
        """Whether a job of this tier could stop anyone at all."""
        return tier > self._lowest

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
        if request.nodes == 1 and not request.part_gpus:
            with suppress(GaveUp):
                return self._find_one(request, may_go)
        picked = flags(np.zeros(len(may_go)))
        nodes = ints([])
        for shape in request.shapes():
            chosen = self._choose(shape, may_go, picked, nodes)
            if chosen is None:
                return None
            nodes = np.concatenate([nodes, chosen])
        return self._without_needless(request, nodes, picked)

    def _find_one(self, request: Request, may_go: Flags) -> Clearing | None:
        """As `find`, for a job on one node. Raises `GaveUp`."""
        if request.model not in self._cheapest:
            shares, prices = self._shares_of(request.model), self._kept_prices(request.model, 1)
            self._cheapest[request.model] = Cheapest(self.board, request.model, shares, prices)
        cheapest = self._cheapest[request.model]
        cheapest.update(may_go)
        found = cheapest.find(request, self.open_nodes(request, ints([])))
        if found is None:
            return None
        picked = flags(np.zeros(len(may_go)))
        picked[found.victims] = True
        return self._without_needless(request, ints([found.node]), picked)

    def _without_needless(self, request: Request, nodes: Ints, picked: Flags) -> Clearing:
        """These nodes and victims, less those who need not go."""
        victims = ints(np.flatnonzero(picked))
        # One on the one node it is for has to go, and frees no other.
        if len(nodes) > 1 or len(victims) > 1 or (self._span[victims] > 1).any():
            nodes = self._trim(request, picked)
            victims = ints(np.flatnonzero(picked))
        return Clearing(nodes, victims)

    def let_go(self, jobs: Ints) -> None:
        """They go for another job."""
        self.is_gone[jobs] = True
        self.may_go = flags(self._may_stop & ~self.is_gone)
        self.departures += 1

    def held_rows(self, victims: Ints) -> Ints:
        """The rows of `Held` of these jobs."""
        return ints(np.sort(self._held_row[self._rows_of(victims)]))

    def stop(self, victims: Ints, beneficiary: int, facts: Mapping[str, object]) -> list[Stop]:
        """Let these jobs go for good, and say so; `facts` are what spoke for all of it."""
        self.let_go(victims)
        jobs, lost_s = self.running.jobs, self.lost_s
        own = [{"tier": int(jobs.tier[v]), "lost_s": round(float(lost_s[v]))} for v in victims]
        numbers = zip(jobs.id[victims].tolist(), own, strict=True)
        return [Stop(number, beneficiary, facts={**facts, **more}) for number, more in numbers]

    def _on_headroom(self) -> Flags:
        """Live jobs that borrow headroom: production need not wait until they have run a while."""
        board, jobs = self.board, self.running.jobs
        lent = [one.nodes for one in board.keeping if one.kind is SlotKind.HEADROOM]
        if not lent:
            return flags(np.zeros(len(jobs)))
        held = board.snapshot.held
        borrow = held.job[np.isin(held.node, np.concatenate(lent)) & held.uses_headroom]
        return flags(np.isin(jobs.id, borrow) & (jobs.booking == NONE))

    def _choose(self, shape: Request, may_go: Flags, picked: Flags, taken: Ints) -> Ints | None:
        """The cheapest nodes for all shares of one shape; enters their victims in `picked`."""
        is_open = self.open_nodes(shape, taken)
        missing = [need - free for free, need in self._wanted(shape)]
        chosen: list[int] = []
        while len(chosen) < shape.nodes:
            left = shape.nodes - len(chosen)
            prices = self._prices_of(shape.model, left, picked)
            prices.update(may_go)
            cost = np.where(is_open, prices.of_nodes(missing), np.inf)
            if np.count_nonzero(cost < np.inf) < left:
                return None
            # The first of the cheapest; one is found in a fraction of the time that sorting takes.
            best = [int(cost.argmin())] if left == 1 else np.argsort(cost, kind="stable").tolist()
            for node in best[:left]:
                chosen.append(node)
                is_open[node] = False
                victims = prices.victims(missing, node)
                is_news = bool(((self._span[victims] > 1) & ~picked[victims]).any())
                picked[victims] = True
                if is_news:
                    break
        return ints(chosen)

    def _prices_of(self, model: int, left: int, picked: Flags) -> Prices:
        """Who is picked goes free of charge; without that, prices are kept for the next job."""
        if picked.any():
            price = np.where(picked[self.job], 0.0, self.price[self.job])
            return Prices(self._shares_of(model), floats(price), left)
        return self._kept_prices(model, left)

    def _kept_prices(self, model: int, left: int) -> Prices:
        if (model, left) not in self._prices:
            price = floats(self.price[self.job])
            self._prices[model, left] = Prices(self._shares_of(model), price, left)
        return self._prices[model, left]

    def open_nodes(self, shape: Request, taken: Ints) -> Flags:
        """Nodes of the pool that could hold a share and are not kept for a head or taken."""
        board, shape = self.board, of_any_queue(shape)
        if shape not in self._able:
            able = is_capable(board, shape, board.offered_gpus) & board.snapshot.nodes.takes_work
            self._able[shape] = without_avoided(board, shape, flags(able))
        is_open = flags(self._able[shape] & ~self._is_kept)
        if len(taken):
            is_open[taken] = False
        return is_open

    def _wanted(self, shape: Request) -> tuple[tuple[Ints, int], ...]:
        """GPUs, cpus and memory: free by node, and needed."""
        need = shape.gpus, shape.cpus, shape.memory_mib
        gpus, cpus, memory_mib = zip(self.board.free_for_others(shape.model), need, strict=True)
        return gpus, cpus, memory_mib

    def resources(self, shape: Request, rows: Ints) -> tuple[tuple[Ints, Ints, int], ...]:
        """GPUs, cpus and memory: free by node, given back by share, and needed."""
        shares = self._shares_of(shape.model)
        return tuple(
            (free, freed[rows], need)
            for (free, need), freed in zip(self._wanted(shape), shares.freed, strict=True)
        )

    def _shares_of(self, model: int) -> Shares:
        """The shares, with what each gives back of a model."""
        if model not in self._shares:
            held, rows = self.board.snapshot.held, self._held_row
            own = (self._gpus_of(model)[rows], held.cpus[rows], held.memory_mib[rows])
            freed = self._with_all_around(model, own)
            first = ints(np.searchsorted(self.node, np.arange(len(self.board.changes) + 1)))
            self._shares[model] = Shares(self.job, self.node, self._span[self.job], freed, first)
        return self._shares[model]

    def _with_all_around(self, model: int, freed: tuple[Ints, ...]) -> tuple[Ints, ...]:
        """Who has a node alone gives back with its share what nobody has of it."""
        board, alone = self.board, self.board.is_closed[self.node]
        free = board.free_gpus[model], board.cpus_free, board.memory_free_mib
        around = (np.maximum(0, column[self.node]) * alone for column in free)
        return tuple(ints(own + more) for own, more in zip(freed, around, strict=True))

    def _rows_of(self, jobs: Ints) -> Ints:
        """The shares of these jobs (rows)."""
        if len(jobs) == 1:
            return self._by_job[self._first_of[jobs[0]] : self._first_of[jobs[0] + 1]]
        first, last = self._first_of[jobs].tolist(), self._first_of[jobs + 1].tolist()
        spans = [self._by_job[a:b] for a, b in zip(first, last, strict=True)]
        return np.concatenate([ints([]), *spans])

    def _gpus_of(self, model: int) -> Ints:
        """Devices of a model that a row of `Held` gives back, if others may have them then."""
        if model not in self._gpus:
            devices, board = self.board.snapshot.devices, self.board
            counts = (devices.holder != NONE) & (devices.claim == NONE) & board.is_offered
            counts &= board.accepts[model][devices.model]
            rows = len(self.board.snapshot.held.job)
            self._gpus[model] = ints(np.bincount(devices.holder[counts], minlength=rows))
        return self._gpus[model]

    def _trim(self, request: Request, picked: Flags) -> Ints:
        """Take out of `picked` who need not go, the dearest first; returns the nodes to take.

        The nodes may be others than those chosen before: a gang that goes frees some that cost
        nothing more. Whoever is left has a share on one of the nodes, or it would not be needed.
        """
        shapes, rows = request.shapes(), ints(np.sort(self._rows_of(ints(np.flatnonzero(picked)))))
        fronts = [self._front(shape, rows) for shape in shapes]
        rows_of = dict(rows_by_group(self.job[rows]))
        for job in sorted(rows_of, key=lambda row: (-float(self.price[row]), row)):
            for front in fronts:
                front.give_back(rows_of[job])
            if are_enough(fronts, request):
                picked[job] = False
                continue
            for front in fronts:
                front.take(rows_of[job])
        nodes = ints([])
        for front, shape in zip(fronts, shapes, strict=True):
            nodes = np.concatenate([nodes, np.sort(front.tightest(nodes)[: shape.nodes])])
        return ints(nodes)

    def _front(self, shape: Request, rows: Ints) -> Front:
        """The nodes for one share of a shape once these rows of shares are given back."""
        is_open = self.open_nodes(shape, ints([]))
        return Front(self.node[rows], is_open, self.resources(shape, rows))
