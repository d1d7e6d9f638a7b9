"""Whom to stop, for whom, and where the others move.

Who runs is chosen anew, tier by tier (`selection.py`); who would stop stays if elastic ones can
shrink instead (`yielding.py`). What is not chosen stops, what runs and is chosen stays where it is,
and newcomers are placed, the widest first. Where one fits nowhere though enough GPUs are free,
elastic jobs give nodes back, else smaller jobs move away from the node where that costs least; they
are placed next, so sizes shrink and it ends. Nobody is stopped for nothing: a job that was to stop
and whose GPUs nobody took stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.explaining import rule_out
from scheduler.engine.keeping.calendar import keep_calendar
from scheduler.engine.plan import Resize, Stop
from scheduler.engine.policy import Order, Policy
from scheduler.engine.preempting.floor import Floor, Resident, held_gpus
from scheduler.engine.preempting.gainers import Gainers
from scheduler.engine.preempting.leaving import without
from scheduler.engine.preempting.permits import as_allowed, permits_beside, refused
from scheduler.engine.preempting.resizing import Elastic, may_resize
from scheduler.engine.preempting.selection import Needs, apart, choose_runners
from scheduler.engine.preempting.stakes import lost_work_s, may_stop
from scheduler.engine.preempting.yielding import Yielding
from scheduler.engine.shaping.sizes import with_nodes
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import (
    NONE,
    Classes,
    Flags,
    Floats,
    Ints,
    Running,
    Snapshot,
    Waiting,
    classes_of,
    flags,
    floats,
    ints,
)
from scheduler.engine.worth import gpus_of, worth_by_pool

# So often those whose accounts refuse them are left out and all is chosen again.
_TRIES = 4


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """The cluster as it will be once the stops are over, and who starts where then.

    In `snapshot` the stopped jobs wait, after those that wait already, and who is resized has given
    its nodes back. `placed`: row of a waiting job and its node rows in the order of ranks.
    """

    snapshot: Snapshot
    stops: tuple[Stop, ...] = ()
    resizes: tuple[Resize, ...] = ()
    placed: tuple[tuple[int, Ints], ...] = ()


def make_room(snapshot: Snapshot, policy: Policy) -> Room:
    """Stops and moves in the pools whose policy rearranges; none if it does in none."""
    orders = [one.order if one.rearranges else None for one in policy.by_pool(snapshot.pools)]
    if not any(orders) or snapshot.running is None or not len(snapshot.waiting):
        return Room(snapshot)
    stays = flags([order is None for order in orders])[snapshot.running.jobs.pool]
    others = snapshot.running.take(stays) if stays.any() else None
    running = snapshot.running.take(may_stop(snapshot.running, policy) & ~stays)
    excluded: set[int] = set()
    yields = may_resize(running, policy)
    for _ in range(_TRIES):
        rearrangement = _Rearrangement(snapshot, running, policy, orders, excluded, others, yields)
        rearrangement.choose()
        rearrangement.place()
        if yields and rearrangement.leaves_out():
            # Counts said that there is room for all beside who shrinks, and there is not.
            yields = False
            continue
        room = rearrangement.room()
        barred = rearrangement.refused(room) | rearrangement.stopping_for_nobody(room)
        if not barred:
            return room
        excluded |= barred
    return Room(snapshot)


class _Rearrangement:
    """Rows count the waiting jobs, then the running ones.

    `orders`, by pool: None where who runs is not chosen anew. `others` run in such pools.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        running: Running,
        policy: Policy,
        orders: Sequence[Order | None],
        excluded: set[int],
        others: Running | None,
        yields: bool,
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.orders = orders
        self.others = others
        self.board = Board(snapshot)
        self.board.keeping.slack_s = policy.backfill_slack_s
        keep_calendar(self.board)
        self.first_running = len(snapshot.waiting)
        self.excluded = excluded
        self.jobs = snapshot.waiting.join(running.jobs)
        self.cost_s: Floats = floats(
            np.concatenate([np.zeros(self.first_running), running.restart_cost_s])
        )
        self.lost_s: Floats = lost_work_s(running)
        self.classes: Classes = classes_of(self.jobs)
        shares = held_gpus(snapshot, running.jobs.id, self.first_running)
        self.has_limits = len(snapshot.accounts) > 0 and not Gate(snapshot).is_open
        self.sized = self._as_they_are(shares)
        if self.has_limits:
            self.sized = as_allowed(self.sized, snapshot, self.classes, self.first_running)
        self.gpus = gpus_of(self.sized)
        self.floor = Floor(self.board)
        self.chosen: Flags = flags(np.zeros(len(self.jobs)))
        self.gone: dict[int, Resident] = {}
        self.placed: dict[int, list[tuple[int, int]]] = {}
        self.for_whom: dict[int, int] = {}
        self.must_shrink = False
        for row, owned in shares.items():
            self.floor.admit(row, self._resident(row, owned))
        self.floor.fixed = {row for row in excluded if row >= self.first_running}
        self.is_apart = np.isin(self.classes.of_job, apart(self.classes.requests))
        self.floor.bound = set(np.flatnonzero(self.is_apart | (self.jobs.mask != NONE)).tolist())
        self.yielding = Yielding(
            Elastic(self.board, running, policy), self.floor, self.first_running
        )
        self.yields = yields

    def choose(self) -> None:
        """Who runs: in each pool tier by tier, higher ones first, within the GPUs left."""
        jobs = self.jobs
        may_run = ~np.isin(self.classes.of_job, list(rule_out(self.board, self.classes)))
        may_run &= ~self.is_apart & ~np.isin(np.arange(len(jobs)), list(self.excluded))
        may_run[self.first_running :] = [
            row in self.floor.residents for row in range(self.first_running, len(jobs))
        ]
        may_run &= flags([order is not None for order in self.orders])[jobs.pool]
        key, value = worth_by_pool(self.sized, self.cost_s, self.orders)
        is_new = np.arange(len(jobs)) < self.first_running
        order = np.lexsort((jobs.id, jobs.queued_at_s, is_new, key, -jobs.tier, jobs.pool))
        order = ints(order[may_run[order]])
        permits = None
        if self.has_limits:
            fixed = without(self.snapshot, set(jobs.id[self.first_running :].tolist()))
            permits = permits_beside(fixed, self.sized, self.classes, self.first_running, order)
        spare = self.yielding.spare_gpus(self.gpus * self.yields)
        needs = Needs(jobs.pool, jobs.tier, self.gpus, spare, value, flags(~is_new))
        capacity = self.floor.gpus_by_pool()
        self.chosen[choose_runners(order, needs, capacity, permits)] = True
        size = len(self.snapshot.pools)
        wanted = np.bincount(jobs.pool, weights=self.gpus * self.chosen, minlength=size)
        self.must_shrink = bool((wanted > capacity).any())

    def place(self) -> None:
        """Take off who leaves, place the newcomers, keep who left for nothing."""
        for row in sorted(self.floor.residents):
            if not self.chosen[row]:
                self.gone[row] = self.floor.take_off(row)
        gpus: list[int] = self.gpus.tolist()
        to_place = [(-gpus[row], row) for row in self._newcomers()]
        heapify(to_place)
        while to_place:
            for moved in self._place(heappop(to_place)[1]):
                heappush(to_place, (-gpus[moved], moved))
        for row in sorted(self.gone, key=lambda row: (not self.chosen[row], row)):
            if row in self.placed:
                continue
            # Where accounts have limits, one could be why a job that was not chosen has to stop.
            may_remain = bool(self.chosen[row]) or not self.has_limits
            if self.floor.holds(self.gone[row]):
                self.floor.put(row, self.gone.pop(row))
            elif may_remain and self.yielding.remain(row, self.gone[row]):
                del self.gone[row]
        self.yielding.take_again()

    def room(self) -> Room:
        """What came of it."""
        account = self.jobs.account if self.has_limits else None
        gainers = Gainers(self.placed, account, self.jobs.tier)
        stops = tuple(self._stop(row, self._beneficiary(row, gainers)) for row in sorted(self.gone))
        rows = ints([*range(self.first_running), *sorted(self.gone)])
        row_of = {row: number for number, row in enumerate(rows.tolist())}
        placed = tuple(
            (row_of[row], ints([node for node, _ in shares])) for row, shares in self.placed.items()
        )
        remaining_s = self.jobs.remaining_s[rows] + self.cost_s[rows]
        waiting = replace(self.jobs.take(rows), remaining_s=remaining_s)
        shrunk = self.yielding.who_shrank(self.gone.keys() | self.placed.keys())
        whose = [int(self.jobs.id[self._beneficiary(row, gainers)]) for row in shrunk]
        resizes = tuple(map(self.yielding.resize, shrunk, whose))
        given = [(int(self.jobs.id[row]), self.yielding.given(row)) for row in shrunk]
        after = without(self.snapshot, {stop.job for stop in stops}, given)
        return Room(replace(after, waiting=waiting, running=self.others), stops, resizes, placed)

    def refused(self, room: Room) -> set[int]:
        """Who was placed and may not start after all, because of what accounts may hold."""
        if not self.has_limits:
            return set()
        rows = [*range(self.first_running), *sorted(self.gone)]
        return {rows[row] for row in refused(room.snapshot, room.placed)}

    def stopping_for_nobody(self, room: Room) -> set[int]:
        """Newcomers whom there was room for by count and on no nodes, if jobs stopped for them that
        nobody else of their tier gains by; else newcomers of lower tiers who took that room.
        """
        leaving: list[Stop | Resize] = [*room.stops, *room.resizes]
        if all(one.job != one.beneficiary for one in leaving):
            return set()
        return self._newcomers() - self.placed.keys() or self._newcomers()

    def leaves_out(self) -> bool:
        """Whether a newcomer found no nodes, where there is no room by count unless some shrink."""
        return self.must_shrink and bool(self._newcomers() - self.placed.keys())

    def _newcomers(self) -> set[int]:
        return set(np.flatnonzero(self.chosen[: self.first_running]).tolist())

    def _place(self, row: int) -> list[int]:
        """Put the job where it fits, moving smaller ones if need be; returns who was moved."""
        request = self.classes.requests[int(self.classes.of_job[row])]
        request = with_nodes(request, int(self.sized.nodes[row]))
        moved: list[int] = []
        until_s, tier = self._gone_s(row), int(self.jobs.tier[row])
        shares = self.floor.find(request, until_s)
        if shares is None and self.yields:
            gave = self.yielding.make_room(request, tier, until_s)
            self.for_whom = dict.fromkeys(gave, row) | self.for_whom
            shares = self.floor.find(request, until_s) if gave else None
        if shares is None:
            least = int(self.gpus[row])
            moves = self.floor.cheapest_moves(request, least, tier, until_s) or set()
            for job in sorted(moves):
                self.gone[job] = self.floor.take_off(job)
                self.for_whom[job] = row
                moved.append(job)
            shares = self.floor.find(request, until_s) if moves else None
        if shares is None:
            return moved
        if row in self.gone and set(self.gone[row].shares) == set(shares):
            del self.gone[row]
        else:
            self.placed[row] = shares
        self.floor.put(row, self._resident(row, shares))
        return moved

    def _gone_s(self, row: int) -> float:
        """When a job is surely gone if it starts now."""
        left_s = float(self.jobs.remaining_s[row]) + float(self.cost_s[row])
        return self.snapshot.now_s + left_s + self.policy.backfill_slack_s

    def _stop(self, row: int, beneficiary: int) -> Stop:
        jobs = self.jobs
        facts: dict[str, object] = {
            "why": "order",
            "tier": int(jobs.tier[row]),
            "beneficiary_tier": int(jobs.tier[beneficiary]),
            "lost_s": round(float(self.lost_s[row - self.first_running])),
        }
        return Stop(int(jobs.id[row]), int(jobs.id[beneficiary]), facts=facts)

    def _beneficiary(self, row: int, gainers: Gainers) -> int:
        """For whom a job stops or shrinks: who moved it, else who gains by it."""
        if row in self.for_whom:
            return self.for_whom[row]
        if row in self.gone:
            return gainers.of(row, {node for node, _ in self.gone[row].shares})
        return gainers.of(row, self.yielding.given(row))

    def _as_they_are(self, shares: Mapping[int, Sequence[tuple[int, int]]]) -> Waiting:
        """The jobs; elastic ones that run with the nodes they have, not those they would like."""
        nodes = self.jobs.nodes.copy()
        for row, owned in shares.items():
            if self.jobs.nodes_min[row]:
                nodes[row] = len(owned)
        return replace(self.jobs, nodes=nodes)

    def _resident(self, row: int, shares: Sequence[tuple[int, int]]) -> Resident:
        request = self.classes.requests[int(self.classes.of_job[row])]
        gpus, tier = int(self.gpus[row]), int(self.jobs.tier[row])
        # GPU seconds lost when it moves; a newcomer has nothing to lose yet.
        cost = float(self.cost_s[row]) * gpus
        return Resident(tuple(shares), request.cpus, request.memory_mib, gpus, cost, tier)
