"""A workload on a pool, event by event."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.plan import Plan, Reservation
from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import Floats, Snapshot, ints
from scheduler.simulator.events import ClusterEvent, in_order
from scheduler.simulator.hazards import Hazards, next_bin_s
from scheduler.simulator.teams import Teams, Use
from scheduler.simulator.workload import Workload
from scheduler.simulator.world import World

# Bins are looked at no more often than this.
SHORTEST_TICK_S = 1.0

Watch: TypeAlias = Callable[[Snapshot, Plan], None]
Limit: TypeAlias = Callable[[World, Sequence[int]], float]


def _look_away(_snapshot: Snapshot, _plan: Plan) -> None:
    pass


def no_limit(_world: World, _ended: Sequence[int]) -> float:
    """Jobs may wait as long as they have to."""
    return np.inf


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of each job of a workload; `held_s` is how long it held its GPUs."""

    end_s: Floats
    waited_s: Floats
    held_s: Floats
    preemptions: int
    failures: int
    cycles: int


class ReplayStuck(RuntimeError):
    """Nothing runs, nothing will arrive, and yet jobs wait: a defect of the engine."""


class Replay:
    """A world, the policy it obeys, and what happens next.

    `watch` is shown every snapshot and its plan. `limit` says before each decision how long a job
    may wait until it goes first; it is told which jobs have just ended. `teams` share the pool;
    `events` happen to its nodes.
    """

    def __init__(
        self,
        workload: Workload,
        nodes: int,
        policy: Policy,
        *,
        watch: Watch = _look_away,
        limit: Limit = no_limit,
        teams: Teams | None = None,
        events: Sequence[ClusterEvent] = (),
    ) -> None:
        # Who is told how long jobs run need not learn it.
        learns = policy.order is Order.LAS or bool(np.isinf(workload.declared_s).any())
        hazards = Hazards(workload.gpus) if learns else None
        use = None if teams is None else Use(teams, policy.half_life_s)
        self.world = World(workload, nodes, hazards, use)
        self.policy = policy
        self.cycles = 0
        self._watch = watch
        self._limit = limit
        self._arrived = 0
        self._events = in_order(events, nodes)
        self._happened = 0
        self._ends: list[tuple[float, int]] = []
        self._sinks_s = np.inf
        self._kept: tuple[Reservation, ...] = ()

    def next_s(self) -> float:
        """When the next job arrives or ends or sinks a bin, or a node changes while jobs are there;
        infinite when all is done.
        """
        next_s = min(self._arrives_s(), self._ends_s(), self._sinks_s)
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
            world.change_node(event.node, event.what)
            self._happened += 1
        while self._arrives_s() <= world.now_s:
            world.arrive(self._arrived)
            self._arrived += 1
        world.wait_limit_s = self._limit(world, ended)
        self._sinks_s = np.inf
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
            world.end_s, world.waited_s, world.held_s, world.stops, world.failures, self.cycles
        )

    def _decide(self) -> None:
        world = self.world
        snapshot = with_promises(world.snapshot(may_stop=self.policy.preempts), self._kept)
        plan = plan_cycle(snapshot, self.policy)
        self._kept = plan.reservations
        self._watch(snapshot, plan)
        for row in world.apply(plan):
            self._expect_end(row)
        self.cycles += 1
        if plan.stops and self.policy.stops_lower_tiers:
            # What the stopped ones leave over is given out in the next cycle.
            self._decide()
            return
        if self.policy.preempts and world.hazards is not None and world.is_waiting.any():
            # The product decides every few seconds; here only the moments that can matter count.
            rows = ints(list(world.running))
            sinks_s = next_bin_s(world.attained_s(rows), world.workload.gpus[rows])
            self._sinks_s = world.now_s + max(SHORTEST_TICK_S, float(sinks_s.min(initial=np.inf)))

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
    nodes: int,
    policy: Policy,
    *,
    watch: Watch = _look_away,
    limit: Limit = no_limit,
    teams: Teams | None = None,
    events: Sequence[ClusterEvent] = (),
) -> Outcome:
    """Run all jobs to their ends. Raises ReplayStuck, PlanRefused."""
    run = Replay(workload, nodes, policy, watch=watch, limit=limit, teams=teams, events=events)
    while run.next_s() < np.inf:
        run.step()
    return run.outcome()
