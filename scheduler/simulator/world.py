"""One pool of equal nodes with jobs that obey plans."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from scheduler.engine.plan import Plan, Start
from scheduler.engine.snapshot import (
    NODE_STATES,
    NONE,
    Devices,
    Flags,
    Floats,
    Held,
    Ints,
    Nodes,
    Snapshot,
    Waiting,
    flags,
    floats,
    ints,
)
from scheduler.simulator.workload import Workload
from scheduler.states import NodeState

# What a run that outlives its declaration is taken to need still: half of what it has run.
OVERRUN_SHARE, OVERRUN_S = 0.5, 60.0


class PlanRefused(RuntimeError):
    """The plan contradicts the world: a defect of the engine."""


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What a job holds on one node; rows of devices."""

    node: int
    devices: Ints


class World:
    """The state of a pool at `now_s`. Rows of jobs count from 0, their ids from 1.

    `left_s` is the work a job truly still has, `ran_s` what it has run, `waited_s` what it has
    waited in all. Node and device ids are their rows plus 1.
    """

    def __init__(self, workload: Workload, nodes: int) -> None:
        size, per_node = len(workload), workload.gpus_per_node
        self.workload = workload
        self.now_s = 0.0
        self.left_s: Floats = workload.run_s.copy()
        self.ran_s: Floats = floats(np.zeros(size))
        self.waited_s: Floats = floats(np.zeros(size))
        self.end_s: Floats = floats(np.full(size, np.nan))
        self.since_s: Floats = workload.submit_s.copy()
        self.is_waiting: Flags = flags(np.zeros(size))
        self.running: dict[int, tuple[Share, ...]] = {}
        self.holder: Ints = ints(np.full(nodes * per_node, NONE))
        self.wait_limit_s = np.inf
        self._jobs = workload.columns()
        self._nodes = _equal_nodes(nodes)
        self._node_of_device: Ints = ints(np.repeat(np.arange(nodes), per_node))

    def snapshot(self) -> Snapshot:
        """What the engine sees of it now."""
        rows = ints(np.flatnonzero(self.is_waiting))
        held, holder_row = self._held()
        return Snapshot(
            now_s=self.now_s,
            pools=("pool",),
            queues=("queue",),
            queue_is_paused=flags([False]),
            models=("GPU",),
            nodes=self._nodes,
            devices=self._devices(holder_row),
            held=held,
            waiting=_take(self._jobs, rows, remaining_s=self.expected_s(rows)),
            wait_limit_s=floats([self.wait_limit_s]),
        )

    def expected_s(self, rows: Ints) -> Floats:
        """What these jobs are taken to need still, by what was declared and what they ran."""
        ran_s = self.ran_s[rows]
        left_s = self.workload.declared_s[rows] - ran_s
        overrun_s = np.maximum(OVERRUN_S, OVERRUN_SHARE * ran_s)
        return floats(np.where(left_s > 0, left_s, overrun_s))

    def arrive(self, row: int) -> None:
        """The job is submitted now."""
        self.is_waiting[row] = True

    def advance(self, now_s: float) -> None:
        """Let the running jobs run until then; nobody's work may end before."""
        passed_s = now_s - self.now_s
        self.now_s = now_s
        if self.running:
            rows = ints(list(self.running))
            self.left_s[rows] -= passed_s
            self.ran_s[rows] += passed_s

    def end(self, row: int) -> None:
        """The running job has done its work."""
        self.end_s[row] = self.now_s
        self._release(row)

    def apply(self, plan: Plan) -> list[int]:
        """Carry out a plan; returns the rows of the jobs started. Raises PlanRefused."""
        for start in plan.starts:
            self._start(start)
        return [start.job - 1 for start in plan.starts]

    def _start(self, start: Start) -> None:
        row = start.job - 1
        if not self.is_waiting[row]:
            raise PlanRefused(f"job {start.job} starts but does not wait")
        shares = []
        for placement in start.placements:
            devices = ints(placement.devices) - 1
            node = placement.node - 1
            if (self.holder[devices] != NONE).any():
                raise PlanRefused(f"job {start.job} gets a GPU that is not free")
            if (self._node_of_device[devices] != node).any():
                raise PlanRefused(f"job {start.job} gets a GPU of another node")
            self.holder[devices] = row
            shares.append(Share(node, devices))
        if sum(len(share.devices) for share in shares) != self.workload.gpus[row]:
            raise PlanRefused(f"job {start.job} does not get the GPUs it asked for")
        self.running[row] = tuple(shares)
        self.is_waiting[row] = False
        self.waited_s[row] += self.now_s - self.since_s[row]

    def _release(self, row: int) -> None:
        for share in self.running.pop(row):
            self.holder[share.devices] = NONE

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
        held = Held(
            job=rows + 1,
            node=ints([share.node for _, share in shares]),
            cpus=zeros,
            memory_mib=zeros,
            until_s=self.now_s + self.expected_s(rows),
        )
        return held, holder_row

    def _devices(self, holder_row: Ints) -> Devices:
        size = len(self.holder)
        return Devices(
            id=ints(np.arange(1, size + 1)),
            node=self._node_of_device,
            model=ints(np.zeros(size)),
            link_group=self._node_of_device,
            is_healthy=flags(np.ones(size)),
            holder=holder_row,
            is_shareable=flags(np.zeros(size)),
        )


def _equal_nodes(count: int) -> Nodes:
    zeros = ints(np.zeros(count))
    return Nodes(
        id=ints(np.arange(1, count + 1)),
        pool=zeros,
        state=ints(np.full(count, NODE_STATES.index(NodeState.READY))),
        takes_work=flags(np.ones(count)),
        cpus_total=zeros,
        cpus_free=zeros,
        memory_total_mib=zeros,
        memory_free_mib=zeros,
    )


def _take(jobs: Waiting, rows: Ints, *, remaining_s: Floats) -> Waiting:
    columns = {field.name: getattr(jobs, field.name)[rows] for field in fields(jobs)}
    return Waiting(**{**columns, "remaining_s": remaining_s})
