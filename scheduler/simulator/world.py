"""One pool of equal nodes with jobs that obey plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine.plan import Plan, Start, Stop
from scheduler.engine.snapshot import (
    NONE,
    Devices,
    Flags,
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
from scheduler.simulator.events import Happening, changed_nodes, equal_nodes
from scheduler.simulator.hazards import Hazards
from scheduler.simulator.teams import Use, account_of
from scheduler.simulator.workload import Workload

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

    `left_s`, `ran_s` and `waited_s`: the work a job truly still had, what it had run and what it
    had waited at `since_s`, when it last began to wait or to run; `stopped_s`: when it was last
    stopped for another. `owed_s`: extra work of all its
    restarts. `ends_s`: when its work will be done, if it runs. `held_s`: how long it held its GPUs.
    Node and device ids are rows plus 1.
    """

    def __init__(
        self,
        workload: Workload,
        nodes: int,
        hazards: Hazards | None = None,
        use: Use | None = None,
    ) -> None:
        size, per_node = len(workload), workload.gpus_per_node
        self.workload = workload
        self.hazards = hazards
        self.now_s = 0.0
        self.left_s: Floats = workload.run_s.copy()
        self.ran_s: Floats = floats(np.zeros(size))
        self.waited_s: Floats = floats(np.zeros(size))
        self.end_s: Floats = floats(np.full(size, np.nan))
        self.ends_s: Floats = floats(np.full(size, np.inf))
        self.since_s: Floats = workload.submit_s.copy()
        self.stopped_s: Floats = floats(np.full(size, -np.inf))
        self.held_s: Floats = floats(np.zeros(size))
        self.stops = 0
        self.failures = 0
        self.is_waiting: Flags = flags(np.zeros(size))
        self.running: dict[int, tuple[Share, ...]] = {}
        self.holder: Ints = ints(np.full(nodes * per_node, NONE))
        self.wait_limit_s = np.inf
        self.run_share = 1.0
        self.owed_s: Floats = floats(np.zeros(size))
        self._restart_cost_s = workload.restart_cost_s()
        self.use = use
        self._team = workload.teams()
        self._jobs = workload.columns()
        if use is not None:
            self._jobs = replace(self._jobs, account=account_of(self._team))
        self._learnt_s: Floats = floats(np.full(size, np.inf))
        self._nodes = equal_nodes(nodes)
        self._node_of_device: Ints = ints(np.repeat(np.arange(nodes), per_node))

    def snapshot(self, *, may_stop: bool = False) -> Snapshot:
        """What the engine sees of it now; live jobs to choose from only if it `may_stop` any."""
        rows = ints(np.flatnonzero(self.is_waiting))
        self._learn(rows)
        held, holder_row = self._held()
        shared = {} if self.use is None else self.use.tables(self.now_s)
        return Snapshot(
            now_s=self.now_s,
            pools=("pool",),
            queues=("queue",),
            queue_is_paused=flags([False]),
            models=("GPU",),
            nodes=self._nodes,
            devices=self._devices(holder_row),
            held=held,
            waiting=self._as_waiting(rows),
            wait_limit_s=floats([self.wait_limit_s]),
            running=self.live() if may_stop else None,
            run_share=floats([self.run_share]),
            **shared,
        )

    def expected_s(self, rows: Ints) -> Floats:
        """What these jobs are taken to need still, by what was declared and what they ran."""
        ran_s = self.attained_s(rows)
        left_s = self.workload.declared_s[rows] + self.owed_s[rows] - ran_s
        overrun_s = np.maximum(OVERRUN_S, OVERRUN_SHARE * ran_s)
        return floats(np.where(left_s > 0, left_s, overrun_s))

    def attained_s(self, rows: Ints) -> Floats:
        """What these jobs have run so far."""
        run_s = np.where(self.is_waiting[rows], 0.0, self.now_s - self.since_s[rows])
        return floats(self.ran_s[rows] + run_s)

    def arrive(self, row: int) -> None:
        """The job is submitted now."""
        self.is_waiting[row] = True
        if self.hazards is not None:
            self.hazards.arrive(row)

    def end(self, row: int) -> None:
        """The running job has done its work."""
        self.end_s[row] = self.now_s
        if self.hazards is not None:
            self.hazards.end(row, float(self.attained_s(ints([row]))[0]))
        self._release(row)

    def correct(self, row: int, run_s: float) -> None:
        """The job's run time is this after all; a job that has run longer ends now."""
        change_s = run_s - float(self.workload.run_s[row])
        if row in self.running:
            self.ends_s[row] = max(self.now_s, float(self.ends_s[row]) + change_s)
        elif np.isnan(self.end_s[row]):
            self.left_s[row] = max(0.0, float(self.left_s[row]) + change_s)

    def apply(self, plan: Plan) -> list[int]:
        """Carry out a plan, stops first; returns the rows of the jobs started.

        A stopped job waits again and has its restart to do as well. Raises PlanRefused.
        """
        for stop in plan.stops:
            self._stop(stop)
        for start in plan.starts:
            self._start(start)
        return [start.job - 1 for start in plan.starts]

    def _stop(self, stop: Stop) -> None:
        row = stop.job - 1
        if row not in self.running:
            raise PlanRefused(f"job {stop.job} stops but does not run")
        self.owed_s[row] += self._restart_cost_s[row]
        self.left_s[row] = self.ends_s[row] - self.now_s + self._restart_cost_s[row]
        self.stopped_s[row] = self.now_s
        self.stops += 1
        self._wait_again(row)

    def change_node(self, node: int, what: Happening) -> list[int]:
        """Something happens to a node (row); returns the rows of the jobs that fail by it.

        They wait again and have all to do that they had to do when they started.
        """
        self._nodes = changed_nodes(self._nodes, node, what)
        failed = []
        if what is Happening.LOSE:
            failed = [r for r, owned in self.running.items() if node in {s.node for s in owned}]
        for row in failed:
            self.fail(row)
        return failed

    def fail(self, row: int) -> None:
        """A job fails by no fault of its own: what it has run is lost, and it waits again."""
        self.owed_s[row] += self.now_s - self.since_s[row]
        self.failures += 1
        self._wait_again(row)

    def _wait_again(self, row: int) -> None:
        self.ran_s[row] += self.now_s - self.since_s[row]
        self._release(row)
        self.since_s[row] = self.now_s
        self.is_waiting[row] = True

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
        self.since_s[row] = self.now_s
        self.ends_s[row] = self.now_s + self.left_s[row]

    def _release(self, row: int) -> None:
        """Take its devices back; `since_s` is still when it started."""
        held_s = self.now_s - float(self.since_s[row])
        self.held_s[row] += held_s
        if self.use is not None:
            gpu_s = held_s * int(self.workload.gpus[row])
            self.use.add(int(self._team[row]), gpu_s, self.now_s)
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

    def live(self) -> Running:
        """The running jobs, all of which may be stopped."""
        rows = ints(list(self.running))
        return Running.of_jobs(
            self._as_waiting(rows),
            restart_cost_s=self._restart_cost_s[rows],
            ran_s=floats(self.now_s - self.since_s[rows]),
            rested_s=floats(self.now_s - self.stopped_s[rows]),
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
            node=self._node_of_device,
            model=ints(np.zeros(size)),
            link_group=self._node_of_device,
            is_healthy=flags(np.ones(size)),
            holder=holder_row,
            is_shareable=flags(np.zeros(size)),
        )
