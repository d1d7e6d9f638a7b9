"""The jobs of a cluster, in the engine's terms."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from scheduler.engine.snapshot import Flags, Floats, Ints, Waiting, flags, floats, ints
from scheduler.simulator.pools import ByPool, by_pool
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

    A job of up to `gpus_per_node` GPUs sits on one node; a larger one takes whole nodes and a part,
    unless `nodes` says on how many nodes it has equal shares (0: nothing is said).
    None where it does not matter: `tier`, all are normal, as in traces; `team`: whose job, from 0;
    `pool`: where it runs, from 0. `checkpoint_s`: how long after each start, and then again, it
    takes a checkpoint, infinite for never; None: a stop loses no work and a failure all of it.
    `promised_s`: how long it may run after each start before it is stopped for another.
    """

    gpus_per_node: ByPool
    submit_s: Floats
    run_s: Floats
    declared_s: Floats
    gpus: Ints
    tier: Ints | None = None
    team: Ints | None = None
    pool: Ints | None = None
    checkpoint_s: Floats | None = None
    promised_s: Floats | None = None
    nodes: Ints | None = None

    def __len__(self) -> int:
        return len(self.gpus)

    def teams(self) -> Ints:
        """By job; all of one team if nobody asks."""
        return ints(np.zeros(len(self))) if self.team is None else self.team

    def pools(self) -> Ints:
        """By job; all of one pool if nobody asks."""
        return ints(np.zeros(len(self))) if self.pool is None else self.pool

    def per_node(self) -> Ints:
        """By job: the GPUs of a node of its pool."""
        pools = self.pools()
        size = int(pools.max(initial=0)) + 1
        return ints(by_pool(self.gpus_per_node, size))[pools]

    def take(self, rows: Ints) -> Workload:
        """These jobs alone."""
        names = [one.name for one in fields(self) if one.name != "gpus_per_node"]
        had = {name: getattr(self, name) for name in names}
        taken: dict[str, Any] = {
            name: None if column is None else column[rows] for name, column in had.items()
        }
        return replace(self, **taken)

    def shapes(self) -> tuple[Ints, Ints, Ints]:
        """By job: on how many nodes it has whole shares, of how many GPUs, and the part on one node
        more.
        """
        per_node = self.per_node()
        is_wide = self.gpus > per_node
        shares = ints(np.where(is_wide, self.gpus // per_node, 1))
        each = ints(np.where(is_wide, per_node, self.gpus))
        part = ints(np.where(is_wide, self.gpus % per_node, 0))
        if self.nodes is None:
            return shares, each, part
        is_said = self.nodes > 0
        shares = ints(np.where(is_said, self.nodes, shares))
        return (
            shares,
            ints(np.where(is_said, self.gpus // shares, each)),
            ints(np.where(is_said, 0, part)),
        )

    def fit(self, nodes: Ints) -> Flags:
        """By job, whether its pool, of so many nodes by pool, could hold it if it were empty."""
        shares, each, part = self.shapes()
        needed = shares + (part > 0)
        return flags((needed <= nodes[self.pools()]) & (each <= self.per_node()))

    def columns(self) -> Waiting:
        """Every job as a waiting one; job ids count from 1 in the order of submit."""
        size = len(self)
        shares, each, part = self.shapes()
        zeros = ints(np.zeros(size))
        return Waiting.of(
            id=ints(np.arange(1, size + 1)),
            pool=self.pools(),
            queue=zeros,
            tier=ints(np.full(size, int(Tier.NORMAL))) if self.tier is None else self.tier,
            queued_at_s=self.submit_s,
            nodes=shares,
            gpus_per_node=each,
            cpus=zeros,
            memory_mib=zeros,
            time_limit_s=ints(np.full(size, NO_LIMIT_S)),
            part_gpus=part,
            remaining_s=self.declared_s,
        )

    def restart_cost_s(self) -> Floats:
        """By job: the extra work that a stop costs it."""
        limits = [self.gpus <= most for most, _ in RESTART_COSTS]
        costs = [cost for _, cost in RESTART_COSTS]
        return floats(np.select(limits, costs, LARGEST_RESTART_COST_S))
