"""What the engine sees of a simulated cluster, and how the cluster obeys a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduler.engine.plan import Plan, Start
from scheduler.engine.snapshot import (
    NONE,
    Devices,
    Floats,
    Held,
    Ints,
    Running,
    Snapshot,
    Waiting,
    flags,
    floats,
    ints,
)
from scheduler.simulator.hazards import HazardsByPool
from scheduler.simulator.pools import ByPool
from scheduler.simulator.state import Share, State
from scheduler.simulator.teams import Use, account_of
from scheduler.simulator.workload import Workload


class PlanRefused(RuntimeError):
    """The plan contradicts the world: a defect of the engine."""


class World(State):
    """Equal nodes by pool, and jobs that obey plans.

    `wait_limit_s`: who has waited longer goes first, by pool or for all. `run_share`: what part of
    its declared run time a job usually runs.
    """

    def __init__(
        self,
        workload: Workload,
        nodes: ByPool,
        hazards: HazardsByPool | None = None,
        use: Use | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        super().__init__(workload, nodes, names=names, hazards=hazards, use=use)
        self.wait_limit_s: float | Floats = np.inf
        self.run_share = 1.0
        self._learnt_s: Floats = floats(np.full(len(workload), np.inf))
        self._jobs = workload.columns()
        if use is not None:
            self._jobs = replace(self._jobs, account=account_of(self._team))

    def snapshot(self, *, may_stop: bool = False) -> Snapshot:
        """What the engine sees of it now; live jobs to choose from only if it `may_stop` any."""
        rows = ints(np.flatnonzero(self.is_waiting))
        self._learn(rows)
        held, holder_row = self._held()
        shared = {} if self.use is None else self.use.tables(self.now_s)
        pools = len(self.pools)
        return Snapshot(
            now_s=self.now_s,
            pools=self.pools.names,
            queues=("queue",),
            queue_is_paused=flags([False]),
            models=("GPU",),
            nodes=self.nodes,
            devices=self._devices(holder_row),
            held=held,
            waiting=self._as_waiting(rows),
            wait_limit_s=floats(np.broadcast_to(self.wait_limit_s, pools)),
            running=self.live() if may_stop else None,
            run_share=floats(np.full(pools, self.run_share)),
            **shared,
        )

    def apply(self, plan: Plan) -> list[int]:
        """Carry out a plan, stops first; returns the rows of the jobs started.

        A stopped job waits again and has its restart to do as well. Raises PlanRefused.
        """
        for stop in plan.stops:
            if stop.job - 1 not in self.running:
                raise PlanRefused(f"job {stop.job} stops but does not run")
            self.stop(stop.job - 1)
        for start in plan.starts:
            self._obey(start)
        return [start.job - 1 for start in plan.starts]

    def live(self) -> Running:
        """The running jobs, all of which may be stopped once what they were promised is over."""
        rows = ints(list(self.running))
        promised_s = self.workload.promised_s
        return Running.of_jobs(
            self._as_waiting(rows),
            restart_cost_s=self.restart_cost_s[rows],
            ran_s=floats(self.now_s - self.since_s[rows]),
            checkpoint_age_s=self.checkpoint_age_s(rows),
            rested_s=floats(self.now_s - self.stopped_s[rows]),
            least_s=floats(np.zeros(len(rows))) if promised_s is None else promised_s[rows],
        )

    def _obey(self, start: Start) -> None:
        row = start.job - 1
        if not self.is_waiting[row]:
            raise PlanRefused(f"job {start.job} starts but does not wait")
        shares, taken = [], 0
        for placement in start.placements:
            devices = ints(placement.devices) - 1
            node = placement.node - 1
            if (self.holder[devices] != NONE).any():
                raise PlanRefused(f"job {start.job} gets a GPU that is not free")
            if (self.node_of_device[devices] != node).any():
                raise PlanRefused(f"job {start.job} gets a GPU of another node")
            if self.nodes.pool[node] != self._jobs.pool[row]:
                raise PlanRefused(f"job {start.job} gets a node of another pool")
            shares.append(Share(node, devices))
            taken += len(devices)
        if taken != self.workload.gpus[row]:
            raise PlanRefused(f"job {start.job} does not get the GPUs it asked for")
        self.start(row, tuple(shares))

    def _held(self) -> tuple[Held, Ints]:
        """What is held, and the row of that by device."""
        shares = [(row, share) for row, owned in self.running.items() for share in owned]
        rows = ints([row for row, _ in shares])
        holder_row = ints(np.full(len(self.holder), NONE))
        if shares:
            sizes = [len(share.devices) for _, share in shares]
            taken = np.concatenate([share.devices for _, share in shares])
            holder_row[taken] = np.repeat(np.arange(len(shares)), sizes)
        zeros = ints(np.zeros(len(shares)))
        held = Held.of(
            job=rows + 1,
            node=ints([share.node for _, share in shares]),
            cpus=zeros,
            memory_mib=zeros,
            until_s=self.now_s + self.expected_s(rows),
            account=self._jobs.account[rows],
        )
        return held, holder_row

    def _as_waiting(self, rows: Ints) -> Waiting:
        return replace(
            self._jobs.take(rows),
            remaining_s=self.expected_s(rows),
            attained_s=self.attained_s(rows),
            learnt_s=self._learnt_s[rows],
        )

    def _learn(self, waiting: Ints) -> None:
        """Refresh what is learnt about the jobs that wait or run."""
        if self.hazards is not None:
            rows = ints([*waiting, *self.running])
            self._learnt_s[rows] = self.hazards.forecast_s(rows, self.attained_s(rows))

    def _devices(self, holder_row: Ints) -> Devices:
        size = len(self.holder)
        return Devices.of(
            id=ints(np.arange(1, size + 1)),
            node=self.node_of_device,
            model=ints(np.zeros(size)),
            link_group=self.node_of_device,
            is_healthy=flags(np.ones(size)),
            holder=holder_row,
            is_shareable=flags(np.zeros(size)),
        )
