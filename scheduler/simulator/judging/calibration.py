"""How good forecasts of starts are: what a job is told when it first waits, and what comes true."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.engine.plan import Plan
from scheduler.engine.snapshot import Floats, Snapshot, floats
from scheduler.simulator.replay import Limit, Outcome, no_limit
from scheduler.simulator.workload import Workload
from scheduler.simulator.world import World

# As the product learns it: from so many jobs that ended last, and not from fewer than the least.
LEARN_FROM, LEARN_LEAST = 500, 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of the jobs that had to wait: the share told a start at all, and of these the share that
    started within p50 and within p90; medians in seconds of what was told and what came.
    """

    waited: int
    told: float
    within_p50: float
    within_p90: float
    median_p50_s: float
    median_p90_s: float
    median_wait_s: float


@dataclass(slots=True)
class Oracle:
    """Give `watch` and `limit` of one to a `Replay`; learns what jobs run of what they declare."""

    inner: Limit = no_limit
    told: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    shares: deque[float] = field(default_factory=lambda: deque(maxlen=LEARN_FROM))

    def watch(self, snapshot: Snapshot, plan: Plan) -> None:
        """Note what those are told who wait for the first time."""
        new = [row for row, job in enumerate(plan.waits.job.tolist()) if job not in self.told]
        if new:
            p50_s, p90_s = plan.waits.forecast.columns
            for row in new:
                job = int(plan.waits.job[row])
                self.told[job] = (snapshot.now_s, float(p50_s[row]), float(p90_s[row]))

    def limit(self, world: World, ended: Sequence[int]) -> float | Floats:
        """Learn from the jobs that ended, then ask the limit that is in force."""
        work = world.workload
        for row in ended:
            if 0 < work.declared_s[row] < np.inf:
                self.shares.append(min(1.0, float(work.run_s[row] / work.declared_s[row])))
        if len(self.shares) >= LEARN_LEAST:
            world.run_share = max(0.01, float(np.median(self.shares)))
        return self.inner(world, ended)

    def told_of(self, workload: Workload, outcome: Outcome) -> Floats:
        """Columns wait, p50 and p90 in seconds from when each was told; one row a job told."""
        rows = [
            (float(workload.submit_s[job - 1] + outcome.waited_s[job - 1]) - at_s, p50, p90, at_s)
            for job, (at_s, p50, p90) in sorted(self.told.items())
        ]
        table = floats(rows).reshape(-1, 4)
        table[:, 1:3] -= table[:, 3:]
        return table[:, :3]


def calibration_of(tables: Sequence[Floats]) -> Calibration:
    """Figures over the `told_of` of several pools, run without preemption."""
    table = np.concatenate(tables) if tables else np.zeros((0, 3))
    wait_s, p50_s, p90_s = table[np.isfinite(table[:, 2])].T
    return Calibration(
        waited=len(table),
        told=_mean(np.isfinite(table[:, 2])),
        within_p50=_mean(wait_s <= p50_s),
        within_p90=_mean(wait_s <= p90_s),
        median_p50_s=_median(p50_s),
        median_p90_s=_median(p90_s),
        median_wait_s=_median(wait_s),
    )


def _mean(values: np.ndarray) -> float:
    return round(float(values.mean()), 3) if len(values) else 0.0


def _median(values: Floats) -> float:
    return round(float(np.median(values)), 0) if len(values) else 0.0
