"""What accounts may hold while who runs is chosen anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.preempting.leaving import without
from scheduler.engine.shaping.sizes import with_nodes
from scheduler.engine.sharing.purse import Bounds, bounds_of
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import NONE, Classes, Ints, Request, Snapshot, Waiting, classes_of

# Of who has its budget already.
_NOTHING = Bounds(0)


class Permits:
    """Asked job by job, in the order in which they are to run; it only fills up.

    Who waits is asked about with the nodes that `jobs` say, an elastic one that runs with the least
    it may shrink to: `refused` looks at what came of it.
    `jobs`: those that wait, then from `first_running` on those that may be stopped, which
    `snapshot` does not hold. A job that runs has its budget, and keeps it if it stays. `above`:
    those that run above a limit, which was lowered since; nobody is stopped for that.
    """

    def __init__(
        self, snapshot: Snapshot, jobs: Waiting, classes: Classes, first_running: int
    ) -> None:
        self._gate = Gate(snapshot)
        self._account: list[int] = jobs.account.tolist()
        self._jobs = jobs
        self._nodes: list[int] = jobs.nodes.tolist()
        self._classes = classes
        self._first_running = first_running
        self._closed: set[tuple[int, Request]] = set()
        self.above: set[int] = set()

    def take(self, row: int) -> bool:
        """Whether the job may run as well; if so it is counted."""
        account, is_new = self._account[row], row < self._first_running
        request = self._classes.requests[int(self._classes.of_job[row])]
        if is_new:
            request = with_nodes(request, self._nodes[row])
        if row in self.above:
            _foresee(self._gate, request, account, _NOTHING)
            return True
        if (account, request) in self._closed:
            return False
        if self._gate.bars(request, account):
            self._closed.add((account, request))
            return False
        bounds = bounds_of(self._jobs, row) if is_new else _NOTHING
        if is_new and not self._gate.is_paid(request, account, bounds):
            return False
        _foresee(self._gate, request, account, bounds)
        return True


def permits_beside(
    fixed: Snapshot, jobs: Waiting, classes: Classes, first_running: int, order: Ints
) -> Permits:
    """What accounts may hold beside those of `fixed`, who cannot be stopped.

    Whoever of the rows of `order` runs may run on as far as what runs already is the reason why
    its account may not hold it.
    """
    permits, alone = (Permits(fixed, jobs, classes, first_running) for _ in range(2))
    runs = order[order >= first_running].tolist()
    permits.above = {row for row in runs if not alone.take(row)}
    return permits


def take_in_order(rows: Sequence[int], gpus: Ints, permits: Permits, capacity: int) -> list[int]:
    """Of these rows, one after the other, those that fit into so many GPUs and may run."""
    taken, left = list[int](), capacity
    for row in rows:
        if left <= 0:
            break
        need = int(gpus[row])
        if need <= left and permits.take(row):
            taken.append(row)
            left -= need
    return taken


def as_allowed(jobs: Waiting, snapshot: Snapshot, classes: Classes, first_running: int) -> Waiting:
    """The jobs; elastic ones that wait with the most nodes that their accounts may start beside
    what runs, else once who may be stopped has left."""
    rows = np.flatnonzero(jobs.nodes_min[:first_running]).tolist()
    if not rows:
        return jobs
    fixed = without(snapshot, set(jobs.id[first_running:].tolist()))
    gates, nodes = (Gate(snapshot), Gate(fixed)), jobs.nodes.copy()
    known = dict[tuple[int, int, Bounds], int]()
    for row in rows:
        account, bounds = int(jobs.account[row]), bounds_of(jobs, row)
        asked = account, int(classes.of_job[row]), bounds
        if asked not in known:
            request = classes.requests[asked[1]]
            may = [gate for gate in gates if _may_start(gate, request, account, bounds)]
            known[asked] = may[0].sized(request, account, bounds).nodes if may else request.nodes
        nodes[row] = known[asked]
    return replace(jobs, nodes=nodes)


def _may_start(gate: Gate, request: Request, account: int, bounds: Bounds) -> bool:
    return not gate.bars(request, account) and gate.is_paid(request, account, bounds)


def refused(snapshot: Snapshot, placed: Sequence[tuple[int, Ints]]) -> set[int]:
    """Of the waiting rows `placed` on nodes, in turn, those whose accounts may not start them there
    after all."""
    gate, found, waiting = Gate(snapshot), set[int](), snapshot.waiting
    if gate.is_open:
        return found
    classes = classes_of(waiting)
    for row, nodes in placed:
        request = with_nodes(classes.requests[int(classes.of_job[row])], len(nodes))
        account, bounds = int(waiting.account[row]), bounds_of(waiting, row)
        if _may_start(gate, request, account, bounds):
            _foresee(gate, request, account, bounds)
        else:
            found.add(row)
    return found


def _foresee(gate: Gate, request: Request, account: int, bounds: Bounds) -> None:
    """Count a job before its devices are chosen: under every limit that it may fall under, but for
    a model of which there is too little: it will be on others."""
    if gate.is_open or account == NONE:
        return
    milli = gate.least_milli(request)
    gate.purse.reserve(account, milli, bounds, request)
    for row in gate.tree.way_up(account):
        gate.running[row] += 1
    for scope, cohorts in gate.concerned(request):
        short = cohorts.shortage(account, milli)
        if short == gate.shortage((scope, cohorts), request, account, milli):
            cohorts.charge(account, milli)
