"""Whom to stop, for whom, and where the others move.

Who runs is chosen anew, tier by tier (`selection.py`). What is not chosen stops, what runs and is
chosen stays where it is, and newcomers are placed, the widest first. Where one fits nowhere though
enough GPUs are free, smaller jobs move away from the node where that costs least; they are placed
next, so sizes shrink and it ends. Nobody is stopped for nothing: a job that was to stop and whose
GPUs nobody took stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.explaining import rule_out
from scheduler.engine.keeping.calendar import keep_calendar
from scheduler.engine.plan import Stop
from scheduler.engine.policy import Order, Policy
from scheduler.engine.preempting.floor import Floor, Resident
from scheduler.engine.preempting.gainers import Gainers
from scheduler.engine.preempting.leaving import without
from scheduler.engine.preempting.permits import permits_beside, refused, take_in_order
from scheduler.engine.preempting.selection import apart, choose_set
from scheduler.engine.preempting.stakes import lost_work_s, may_stop
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

    In `snapshot` the stopped jobs wait, after those that wait already. `placed`: row of a waiting
    job and its node rows in the order of ranks.
    """

    snapshot: Snapshot
    stops: tuple[Stop, ...] = ()
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
    for _ in range(_TRIES):
        rearrangement = _Rearrangement(snapshot, running, policy, orders, excluded, others)
        rearrangement.choose()
        rearrangement.place()
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
        self.gpus = gpus_of(self.jobs)
        self.floor = Floor(self.board)
        self.chosen: Flags = flags(np.zeros(len(self.jobs)))
        self.gone: dict[int, Resident] = {}
        self.placed: dict[int, list[tuple[int, int]]] = {}
        self.for_whom: dict[int, int] = {}
        self.has_limits = len(snapshot.accounts) > 0 and not Gate(snapshot).is_open
        self._settle(running.jobs)
        self.floor.fixed = {row for row in excluded if row >= self.first_running}

    def choose(self) -> None:
        """Who runs: in each pool tier by tier, higher ones first, within the GPUs left."""
        jobs = self.jobs
        ruled_out = list(rule_out(self.board, self.classes))
        may_run = ~np.isin(self.classes.of_job, ruled_out + apart(self.classes.requests))
        may_run &= ~np.isin(np.arange(len(jobs)), list(self.excluded))
        may_run[self.first_running :] = [
            row in self.floor.residents for row in range(self.first_running, len(jobs))
        ]
        may_run &= flags([order is not None for order in self.orders])[jobs.pool]
        key, value = worth_by_pool(jobs, self.cost_s, self.orders)
        is_new = np.arange(len(jobs)) < self.first_running
        order = np.lexsort((jobs.id, jobs.queued_at_s, is_new, key, -jobs.tier, jobs.pool))
        order = order[may_run[order]]
        left, permits = self._capacity(), None
        if self.has_limits:
            movable = {int(self.jobs.id[row]) for row in range(self.first_running, len(jobs))}
            fixed = without(self.snapshot, movable)
            permits = permits_beside(fixed, jobs, self.classes, self.first_running, order)
        group = jobs.pool[order] * (jobs.tier.max(initial=0) + 1) - jobs.tier[order]
        for rows in np.split(order, np.flatnonzero(np.diff(group)) + 1) if len(order) else ():
            pool = int(jobs.pool[rows[0]])
            picked = rows[choose_set(self.gpus[rows], value[rows], left[pool])]
            if permits is not None:
                # The best set as far as they may, then the others in order.
                line = [*picked.tolist(), *np.setdiff1d(rows, picked, assume_unique=True).tolist()]
                picked = ints(take_in_order(line, self._gpus_of, permits, left[pool]))
            left[pool] -= int(self.gpus[picked].sum())
            self.chosen[picked] = True

    def place(self) -> None:
        """Take off who leaves, place the newcomers, keep who left for nothing."""
        for row in sorted(self.floor.residents):
            if not self.chosen[row]:
                self.gone[row] = self.floor.take_off(row)
        gpus: list[int] = self.gpus.tolist()
        newcomers = np.flatnonzero(self.chosen[: self.first_running]).tolist()
        to_place = [(-gpus[row], row) for row in newcomers]
        heapify(to_place)
        while to_place:
            for moved in self._place(heappop(to_place)[1]):
                heappush(to_place, (-gpus[moved], moved))
        for row in sorted(self.gone, key=lambda row: (not self.chosen[row], row)):
            if row not in self.placed and self.floor.holds(self.gone[row]):
                self.floor.put(row, self.gone.pop(row))

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
        after = without(self.snapshot, {stop.job for stop in stops})
        return Room(replace(after, waiting=waiting, running=self.others), stops, placed)

    def refused(self, room: Room) -> set[int]:
        """Who was placed and may not start after all, because of what accounts may hold."""
        if not self.has_limits:
            return set()
        rows = [*range(self.first_running), *sorted(self.gone)]
        classes = classes_of(room.snapshot.waiting)
        found = refused(room.snapshot, classes, [row for row, _ in room.placed])
        return {rows[row] for row in found}

    def stopping_for_nobody(self, room: Room) -> set[int]:
        """Newcomers whom there was room for by count and on no nodes, if jobs stopped for them that
        nobody else of their tier gains by; else newcomers of lower tiers who took that room.
        """
        if all(stop.job != stop.beneficiary for stop in room.stops):
            return set()
        newcomers = set(np.flatnonzero(self.chosen[: self.first_running]).tolist())
        return newcomers - self.placed.keys() or newcomers

    def _gpus_of(self, row: int) -> int:
        return int(self.gpus[row])

    def _place(self, row: int) -> list[int]:
        """Put the job where it fits, moving smaller ones if need be; returns who was moved."""
        request = self.classes.requests[int(self.classes.of_job[row])]
        moved: list[int] = []
        until_s = self._gone_s(row)
        shares = self.floor.find(request, until_s)
        if shares is None:
            least, tier = int(self.gpus[row]), int(self.jobs.tier[row])
            moves = self.floor.cheapest_moves(request, least, tier, until_s) or set()
            for job in sorted(moves):
                self.gone[job] = self.floor.take_off(job)
                self.for_whom[job] = row
                moved.append(job)
            shares = self.floor.find(request, until_s) if moves else None
        if shares is None:
            return moved
        resident = Resident(
            tuple(shares),
            request.cpus,
            request.memory_mib,
            int(self.gpus[row]),
            self._move_cost(row),
            int(self.jobs.tier[row]),
        )
        if row in self.gone and set(self.gone[row].shares) == set(shares):
            del self.gone[row]
        else:
            self.placed[row] = shares
        self.floor.put(row, resident)
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
        """For whom a job stops: who moved it, else who gains by it."""
        if row in self.for_whom:
            return self.for_whom[row]
        return gainers.of(row, {node for node, _ in self.gone[row].shares})

    def _settle(self, running: Waiting) -> None:
        """Enter the running jobs with what they hold."""
        held, devices = self.snapshot.held, self.snapshot.devices
        row_of = {job: self.first_running + at for at, job in enumerate(running.id.tolist())}
        counted = devices.holder[devices.holder != NONE]
        gpus = np.bincount(counted, minlength=len(held.job)).tolist()
        shares: dict[int, list[tuple[int, int]]] = {}
        for job, node, count in zip(held.job.tolist(), held.node.tolist(), gpus, strict=True):
            if job in row_of and count:
                shares.setdefault(row_of[job], []).append((node, count))
        for row, owned in shares.items():
            request = self.classes.requests[int(self.classes.of_job[row])]
            resident = Resident(
                tuple(owned),
                request.cpus,
                request.memory_mib,
                int(self.gpus[row]),
                self._move_cost(row),
                int(self.jobs.tier[row]),
            )
            self.floor.admit(row, resident)

    def _move_cost(self, row: int) -> float:
        """GPU seconds lost when the job moves; a newcomer has nothing to lose yet."""
        return float(self.cost_s[row]) * int(self.gpus[row])

    def _capacity(self) -> list[int]:
        """By pool: GPUs that are free or held by a job that may be stopped."""
        pools = self.snapshot.nodes.pool
        free = np.bincount(
            pools, weights=self.board.free_gpus[NONE], minlength=len(self.snapshot.pools)
        )
        left = [int(count) for count in free]
        for row, resident in self.floor.residents.items():
            left[int(self.jobs.pool[row])] += sum(gpus for _, gpus in resident.shares)
        return left
