"""A workload on a cluster, event by event."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.plan import Plan, Reservation
from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import Flags, Floats, Ints, Snapshot, flags, ints
from scheduler.simulator.events import ClusterEvent, in_order
from scheduler.simulator.hazards import HazardsByPool, next_bin_s
from scheduler.simulator.pools import ByPool
from scheduler.simulator.teams import Teams, Use
from scheduler.simulator.traces.writing import Results
from scheduler.simulator.workload import Workload
from scheduler.simulator.world import World

# Bins are looked at no more often than this.
SHORTEST_TICK_S = 1.0
# Looked at so much later than a promise is over, lest a rounded sum is a little before it.
_AFTER_S = 1e-3

Watch: TypeAlias = Callable[[Snapshot, Plan], None]
Limit: TypeAlias = Callable[[World, Sequence[int]], float | Floats]


def _look_away(_snapshot: Snapshot, _plan: Plan) -> None:
    pass


def no_limit(_world: World, _ended: Sequence[int]) -> float:
    """Jobs may wait as long as they have to."""
    return np.inf


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of each job of a workload. `held_s` is how long it held its GPUs, `lost_s` the
    work of that which it had to do again; `stops` for others and `fails` are counts.
    """

    start_s: Floats
    end_s: Floats
    waited_s: Floats
    held_s: Floats
    lost_s: Floats
    stops: Ints
    fails: Ints
    cycles: int

    @property
    def preemptions(self) -> int:
        """How often jobs were stopped for others."""
        return int(self.stops.sum())

    @property
    def failures(self) -> int:
        """How often jobs failed with their nodes."""
        return int(self.fails.sum())

    def take(self, rows: Ints) -> Outcome:
        """Of these jobs alone."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        del columns["cycles"]
        return replace(self, **{name: column[rows] for name, column in columns.items()})

    def results(self) -> Results:
        """As a trace says it."""
        return Results(self.start_s, self.end_s, self.waited_s, self.stops, self.fails)


class ReplayStuck(RuntimeError):
    """Nothing runs, nothing will arrive, and yet jobs wait: a defect of the engine."""


class Replay:
    """A world, the policy it obeys, and what happens next.

    `nodes` are by pool, and `names` say how the pools are called, for policies of their own.
    `watch` is shown every snapshot and its plan. `limit` says before each decision how long a job
    may wait until it goes first, by pool or for all; it is told which jobs have just ended. `teams`
    share the cluster; `events` happen to its nodes.
    """

    def __init__(
        self,
        workload: Workload,
        nodes: ByPool,
        policy: Policy,
        *,
        names: tuple[str, ...] = (),
        watch: Watch = _look_away,
        limit: Limit = no_limit,
        teams: Teams | None = None,
        events: Sequence[ClusterEvent] = (),
    ) -> None:
        every = policy.every()
        # Who is told how long jobs run need not learn it.
        learns = any(one.order is Order.LAS for one in every)
        learns |= bool(np.isinf(workload.declared_s).any())
        hazards = HazardsByPool(workload.gpus, workload.pools()) if learns else None
        use = None if teams is None else Use(teams, policy.half_life_s)
        self.world = World(workload, nodes, hazards, use, names)
        self.policy = policy
        self.cycles = 0
        self._watch = watch
        self._limit = limit
        self._arrived = 0
        self._events = in_order(events, self.world.pools)
        self._happened = 0
        self._ends: list[tuple[float, int]] = []
        self._looks_s = np.inf
        self._kept: tuple[Reservation, ...] = ()
        by_pool = policy.by_pool(self.world.pools.names)
        self._preempts = any(one.preempts for one in by_pool)
        self._rearranges: Flags = flags([one.rearranges for one in by_pool])
        self._stops_lower: Flags = flags([one.stops_lower_tiers for one in by_pool])
        self._pool = workload.pools()

    def next_s(self) -> float:
        """When the next job arrives or ends, sinks a bin or may be stopped from then on, or a node
        changes while jobs are there; infinite when all is done.
        """
        next_s = min(self._arrives_s(), self._ends_s(), self._looks_s)
        is_over = next_s == np.inf and not self.world.is_waiting.any()
        return next_s if is_over else min(next_s, self._happens_s())

    def step(self) -> None:
        """Go to the next event and decide.

        1. Jobs whose work is done end; nodes change; arriving jobs wait.
        2. The engine decides, if anybody waits, and the world obeys.
        """
        world = self.world
        world.now_s = self.next_s()
        ended = []
        while self._ends_s() <= world.now_s:
            ended.append(heapq.heappop(self._ends)[1])
            world.end(ended[-1])
        while self._happens_s() <= world.now_s:
            event = self._events[self._happened]
            first = world.pools.first_node(world.pools.row(event.pool))
            world.change_node(first + event.node, event.what)
            self._happened += 1
        while self._arrives_s() <= world.now_s:
            world.arrive(self._arrived)
            self._arrived += 1
        world.wait_limit_s = self._limit(world, ended)
        self._looks_s = np.inf
        if world.is_waiting.any():
            self._decide()

    def correct(self, row: int, run_s: float) -> None:
        """The run time of a job turns out to be this; it ends now if that is over."""
        self.world.correct(row, run_s)
        if row in self.world.running:
            self._expect_end(row)

    def outcome(self) -> Outcome:
        """What became of the jobs. Raises ReplayStuck if some still wait."""
        waiting = int(self.world.is_waiting.sum())
        if waiting:
            raise ReplayStuck(f"{waiting} jobs were never started")
        world = self.world
        return Outcome(
            world.start_s,
            world.end_s,
            world.waited_s,
            world.held_s,
            world.lost_s,
            world.stops,
            world.failures,
            self.cycles,
        )

    def _decide(self) -> None:
        world = self.world
        snapshot = with_promises(world.snapshot(may_stop=self._preempts), self._kept)
        plan = plan_cycle(snapshot, self.policy)
        self._kept = plan.reservations
        self._watch(snapshot, plan)
        for row in world.apply(plan):
            self._expect_end(row)
        self.cycles += 1
        stopped = self._pool[[stop.job - 1 for stop in plan.stops]]
        if self._stops_lower[stopped].any():
            # What the stopped ones leave over is given out in the next cycle.
            self._decide()
        elif world.is_waiting.any():
            self._looks_s = min(self._sinks_s(), self._spared_s())

    def _sinks_s(self) -> float:
        """When the next job sinks a bin where that may change who runs. The product decides every
        few seconds; here only the moments that can matter count.
        """
        world = self.world
        if world.hazards is None or not self._rearranges.any():
            return np.inf
        rows = ints([row for row in world.running if self._rearranges[self._pool[row]]])
        sinks_s = next_bin_s(world.attained_s(rows), world.workload.gpus[rows])
        return world.now_s + max(SHORTEST_TICK_S, float(sinks_s.min(initial=np.inf)))

    def _spared_s(self) -> float:
        """When the next job has run as long as it was promised, or has rested, and may be stopped
        for one that waits.
        """
        world, policy = self.world, self.policy
        promised_s = world.workload.promised_s
        if not self._stops_lower.any() or (promised_s is None and not self._spares()):
            return np.inf
        rows = ints([row for row in world.running if self._stops_lower[self._pool[row]]])
        least_s = np.full(len(rows), policy.min_run_s)
        if promised_s is not None:
            least_s = np.maximum(least_s, promised_s[rows])
        spared_s = np.maximum(world.since_s[rows] + least_s, world.stopped_s[rows] + policy.rest_s)
        ahead_s = spared_s[spared_s > world.now_s]
        return float(ahead_s.min(initial=np.inf)) + _AFTER_S

    def _spares(self) -> bool:
        return self.policy.min_run_s > 0 or self.policy.rest_s > 0

    def _expect_end(self, row: int) -> None:
        heapq.heappush(self._ends, (float(self.world.ends_s[row]), row))

    def _arrives_s(self) -> float:
        submit_s = self.world.workload.submit_s
        return float(submit_s[self._arrived]) if self._arrived < len(submit_s) else np.inf

    def _happens_s(self) -> float:
        return self._events[self._happened].at_s if self._happened < len(self._events) else np.inf

    def _ends_s(self) -> float:
        """The next end; what was noted for jobs that were stopped or corrected since is dropped."""
        world = self.world
        while self._ends:
            end_s, row = self._ends[0]
            if row in world.running and world.ends_s[row] == end_s:
                return end_s
            heapq.heappop(self._ends)
        return np.inf


def replay(
    workload: Workload,
    nodes: ByPool,
    policy: Policy,
    *,
    names: tuple[str, ...] = (),
    watch: Watch = _look_away,
    limit: Limit = no_limit,
    teams: Teams | None = None,
    events: Sequence[ClusterEvent] = (),
) -> Outcome:
    """Run all jobs to their ends. Raises ReplayStuck, PlanRefused."""
    run = Replay(
        workload, nodes, policy, names=names, watch=watch, limit=limit, teams=teams, events=events
    )
    while run.next_s() < np.inf:
        run.step()
    return run.outcome()
