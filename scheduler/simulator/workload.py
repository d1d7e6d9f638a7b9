"""The jobs of one pool, in the engine's terms."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine.snapshot import Floats, Ints, Waiting, floats, ints
from scheduler.simulator.trace import Trace
from scheduler.states import Tier

# Traces know no time limits: nothing is stopped for running long.
NO_LIMIT_S = 10 * 365 * 86_400
# Extra work after a stop, in seconds: for one GPU, up to eight, more (Helios, SC'21, and Lucid,
# ASPLOS'23, use these constants).
RESTART_COSTS = ((1, 7.0), (8, 30.0))
LARGEST_RESTART_COST_S = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs by time of submit. `declared_s` is what is said about `run_s` beforehand.

    A job of up to `gpus_per_node` GPUs sits on one node; a larger one takes whole nodes and a part.
    `tier`: None if all are normal, as in traces. `team`: whose job, from 0; None if nobody asks.
    """

    gpus_per_node: int
    submit_s: Floats
    run_s: Floats
    declared_s: Floats
    gpus: Ints
    tier: Ints | None = None
    team: Ints | None = None

    def __len__(self) -> int:
        return len(self.gpus)

    def teams(self) -> Ints:
        """By job; all of one team if nobody asks."""
        return ints(np.zeros(len(self))) if self.team is None else self.team

    def take(self, rows: Ints) -> Workload:
        """These jobs alone."""
        return replace(
            self,
            submit_s=self.submit_s[rows],
            run_s=self.run_s[rows],
            declared_s=self.declared_s[rows],
            gpus=self.gpus[rows],
            tier=None if self.tier is None else self.tier[rows],
            team=None if self.team is None else self.team[rows],
        )

    def columns(self) -> Waiting:
        """Every job as a waiting one; job ids count from 1 in the order of submit."""
        size, per_node = len(self), self.gpus_per_node
        is_wide = self.gpus > per_node
        zeros = ints(np.zeros(size))
        return Waiting.of(
            id=ints(np.arange(1, size + 1)),
            pool=zeros,
            queue=zeros,
            tier=ints(np.full(size, int(Tier.NORMAL))) if self.tier is None else self.tier,
            queued_at_s=self.submit_s,
            nodes=ints(np.where(is_wide, self.gpus // per_node, 1)),
            gpus_per_node=ints(np.where(is_wide, per_node, self.gpus)),
            cpus=zeros,
            memory_mib=zeros,
            time_limit_s=ints(np.full(size, NO_LIMIT_S)),
            part_gpus=ints(np.where(is_wide, self.gpus % per_node, 0)),
            remaining_s=self.declared_s,
        )

    def restart_cost_s(self) -> Floats:
        """By job: the extra work that a stop costs it."""
        limits = [self.gpus <= most for most, _ in RESTART_COSTS]
        costs = [cost for _, cost in RESTART_COSTS]
        return floats(np.select(limits, costs, LARGEST_RESTART_COST_S))


def workload_of(
    trace: Trace, declared_s: Floats, rows: Ints, *, nodes: int, gpus_per_node: int
) -> Workload:
    """These rows of a trace, without the jobs that are larger than the whole pool."""
    rows = ints(rows[trace.gpus[rows] <= nodes * gpus_per_node])
    return Workload(
        gpus_per_node=gpus_per_node,
        submit_s=floats(trace.submit_s[rows]),
        run_s=floats(trace.duration_s[rows]),
        declared_s=declared_s[rows],
        gpus=trace.gpus[rows],
    )
