"""Who waits, who runs on what, and what comes of it when that changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, flags, floats, ints
from scheduler.simulator.events import Happening, changed_nodes, equal_nodes
from scheduler.simulator.hazards import HazardsByPool
from scheduler.simulator.pools import ByPool, Pools
from scheduler.simulator.teams import Use
from scheduler.simulator.workload import Workload

# What a run that outlives its declaration is taken to need still: half of what it has run.
OVERRUN_SHARE, OVERRUN_S = 0.5, 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What a job holds on one node; rows of devices."""

    node: int
    devices: Ints


class State:
    """A cluster at `now_s`. Rows of jobs count from 0, their ids from 1.

    `left_s`, `ran_s` and `waited_s`: the work a job truly still had, what it had run and what it
    had waited at `since_s`, when it last began to wait or to run; `stopped_s`: when it was last
    stopped for another. `owed_s`: extra work of all its restarts, and all that it lost (`lost_s`).
    `ends_s`: when its work will be done, if it runs. `start_s`: when it first started, `held_s`:
    how long it held its GPUs. `stops` and `failures` count by job.
    Node and device ids are rows plus 1.
    """

    def __init__(
        self,
        workload: Workload,
        nodes: ByPool,
        *,
        names: tuple[str, ...] = (),
        hazards: HazardsByPool | None = None,
        use: Use | None = None,
    ) -> None:
        size = len(workload)
        self.workload = workload
        self.pools = Pools.of(nodes, workload.gpus_per_node, names)
        self.hazards = hazards
        self.use = use
        self.now_s = 0.0
        self.left_s: Floats = workload.run_s.copy()
        self.ran_s: Floats = floats(np.zeros(size))
        self.waited_s: Floats = floats(np.zeros(size))
        self.start_s: Floats = floats(np.full(size, np.nan))
        self.end_s: Floats = floats(np.full(size, np.nan))
        self.ends_s: Floats = floats(np.full(size, np.inf))
        self.since_s: Floats = workload.submit_s.copy()
        self.stopped_s: Floats = floats(np.full(size, -np.inf))
        self.held_s: Floats = floats(np.zeros(size))
        self.owed_s: Floats = floats(np.zeros(size))
        self.lost_s: Floats = floats(np.zeros(size))
        self.stops: Ints = ints(np.zeros(size))
        self.failures: Ints = ints(np.zeros(size))
        self.is_waiting: Flags = flags(np.zeros(size))
        self.running: dict[int, tuple[Share, ...]] = {}
        self.nodes = equal_nodes(self.pools)
        self.node_of_device: Ints = self.pools.node_of_device
        self.holder: Ints = ints(np.full(len(self.node_of_device), NONE))
        self.restart_cost_s: Floats = workload.restart_cost_s()
        self._team = workload.teams()

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

    def start(self, row: int, shares: tuple[Share, ...]) -> None:
        """The waiting job runs there from now on."""
        for share in shares:
            self.holder[share.devices] = row
        self.running[row] = shares
        self.is_waiting[row] = False
        self.waited_s[row] += self.now_s - self.since_s[row]
        self.since_s[row] = self.now_s
        self.ends_s[row] = self.now_s + self.left_s[row]
        if np.isnan(self.start_s[row]):
            self.start_s[row] = self.now_s

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

    def stop(self, row: int) -> None:
        """The running job is stopped for another: it waits again, its restart is work as well, and
        what it has run since its last checkpoint has to be done again.
        """
        lost_s = 0.0 if self.workload.checkpoint_s is None else self._since_checkpoint_s(row)
        cost_s = float(self.restart_cost_s[row])
        self.left_s[row] = self.ends_s[row] - self.now_s + cost_s + lost_s
        self.owed_s[row] += cost_s + lost_s
        self.lost_s[row] += lost_s
        self.stopped_s[row] = self.now_s
        self.stops[row] += 1
        self._wait_again(row)

    def fail(self, row: int) -> None:
        """A job fails by no fault of its own and waits again: what it has run since its last
        checkpoint is lost, and all of this run where nobody speaks of checkpoints.
        """
        lost_s = self.now_s - float(self.since_s[row])
        if self.workload.checkpoint_s is not None:
            lost_s = self._since_checkpoint_s(row)
            self.left_s[row] = self.ends_s[row] - self.now_s + lost_s
        self.owed_s[row] += lost_s
        self.lost_s[row] += lost_s
        self.failures[row] += 1
        self._wait_again(row)

    def change_node(self, node: int, what: Happening) -> list[int]:
        """Something happens to a node (row); returns the rows of the jobs that fail by it."""
        self.nodes = changed_nodes(self.nodes, node, what)
        failed = []
        if what is Happening.LOSE:
            failed = [r for r, owned in self.running.items() if node in {s.node for s in owned}]
        for row in failed:
            self.fail(row)
        return failed

    def checkpoint_age_s(self, rows: Ints) -> Floats:
        """By running job: how long ago it took a checkpoint, as far as anybody was told; infinite
        before the first one of a run.
        """
        every_s = self.workload.checkpoint_s
        if every_s is None:
            return floats(np.zeros(len(rows)))
        ran_s = self.now_s - self.since_s[rows]
        return floats(np.where(ran_s < every_s[rows], np.inf, np.mod(ran_s, every_s[rows])))

    def _since_checkpoint_s(self, row: int) -> float:
        """What a running job has done since its last checkpoint, or since it started."""
        assert self.workload.checkpoint_s is not None
        ran_s = self.now_s - float(self.since_s[row])
        return float(np.mod(ran_s, self.workload.checkpoint_s[row]))

    def _wait_again(self, row: int) -> None:
        self.ran_s[row] += self.now_s - self.since_s[row]
        self._release(row)
        self.since_s[row] = self.now_s
        self.is_waiting[row] = True

    def _release(self, row: int) -> None:
        """Take its devices back; `since_s` is still when it started."""
        held_s = self.now_s - float(self.since_s[row])
        self.held_s[row] += held_s
        if self.use is not None:
            gpu_s = held_s * int(self.workload.gpus[row])
            self.use.add(int(self._team[row]), gpu_s, self.now_s)
        for share in self.running.pop(row):
            self.holder[share.devices] = NONE
