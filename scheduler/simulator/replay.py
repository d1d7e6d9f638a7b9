"""A workload on a pool, event by event."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Floats, Snapshot
from scheduler.simulator.workload import Workload
from scheduler.simulator.world import World

Watch: TypeAlias = Callable[[Snapshot, Plan], None]


def _look_away(_snapshot: Snapshot, _plan: Plan) -> None:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of each job of a workload."""

    end_s: Floats
    waited_s: Floats
    preemptions: int
    cycles: int


class ReplayStuck(RuntimeError):
    """Nothing runs, nothing will arrive, and yet jobs wait: a defect of the engine."""


def replay(workload: Workload, nodes: int, policy: Policy, watch: Watch = _look_away) -> Outcome:
    """Run all jobs to their ends, deciding at each moment when jobs arrive or end.

    `watch` is shown every snapshot and its plan. Raises ReplayStuck, PlanRefused.

    1. Go to the next arrival or end.
    2. Jobs whose work is done end; arriving jobs wait.
    3. The engine decides, and the world obeys.
    """
    world = World(workload, nodes)
    ends: list[tuple[float, int]] = []
    arrived, cycles, size = 0, 0, len(workload)
    while arrived < size or ends:
        arrives_s = float(workload.submit_s[arrived]) if arrived < size else np.inf
        world.advance(min(arrives_s, ends[0][0] if ends else np.inf))
        while ends and ends[0][0] <= world.now_s:
            world.end(heapq.heappop(ends)[1])
        while arrived < size and workload.submit_s[arrived] <= world.now_s:
            world.arrive(arrived)
            arrived += 1
        if world.is_waiting.any():
            snapshot = world.snapshot()
            plan = plan_cycle(snapshot, policy)
            watch(snapshot, plan)
            for row in world.apply(plan):
                heapq.heappush(ends, (world.now_s + float(world.left_s[row]), row))
            cycles += 1
    if world.is_waiting.any():
        raise ReplayStuck(f"{int(world.is_waiting.sum())} jobs were never started")
    return Outcome(world.end_s, world.waited_s, 0, cycles)
