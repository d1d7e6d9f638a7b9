"""What accounts may hold while who runs is chosen anew."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.engine.sharing.purse import worst_case_s
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import NONE, Classes, Ints, Request, Snapshot, Waiting


class Permits:
    """Asked job by job, in the order in which they are to run; it only fills up.

    `jobs`: those that wait, then from `first_running` on those that may be stopped, which
    `snapshot` does not hold. A job that runs has its budget, and keeps it if it stays. `above`:
    those that run above a limit, which was lowered since; nobody is stopped for that.
    """

    def __init__(
        self, snapshot: Snapshot, jobs: Waiting, classes: Classes, first_running: int
    ) -> None:
        self._gate = Gate(snapshot)
        self._account: list[int] = jobs.account.tolist()
        self._limit_s: list[int] = jobs.time_limit_s.tolist()
        self._classes = classes
        self._first_running = first_running
        self._closed: set[tuple[int, int]] = set()
        self.above: set[int] = set()

    def take(self, row: int) -> bool:
        """Whether the job may run as well; if so it is counted."""
        account, kind = self._account[row], int(self._classes.of_job[row])
        request = self._classes.requests[kind]
        if row in self.above:
            _foresee(self._gate, request, account, 0)
            return True
        if (account, kind) in self._closed:
            return False
        if self._gate.bars(request, account):
            self._closed.add((account, kind))
            return False
        is_new = row < self._first_running
        if is_new and not self._gate.is_paid(request, account, self._limit_s[row]):
            return False
        _foresee(self._gate, request, account, self._limit_s[row] if is_new else 0)
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


def refused(snapshot: Snapshot, classes: Classes, placed: Sequence[int]) -> set[int]:
    """Of the waiting rows `placed`, in turn, those whose accounts may not start them after all."""
    gate, found, waiting = Gate(snapshot), set[int](), snapshot.waiting
    if gate.is_open:
        return found
    for row in placed:
        request = classes.requests[int(classes.of_job[row])]
        account, limit_s = int(waiting.account[row]), int(waiting.time_limit_s[row])
        if gate.bars(request, account) or not gate.is_paid(request, account, limit_s):
            found.add(row)
        else:
            _foresee(gate, request, account, limit_s)
    return found


def _foresee(gate: Gate, request: Request, account: int, time_limit_s: int) -> None:
    """Count a job before its devices are chosen: under every limit that it may fall under."""
    if gate.is_open or account == NONE:
        return
    milli = gate.least_milli(request)
    gate.purse.reserve(account, worst_case_s(milli, time_limit_s), request)
    for row in gate.tree.way_up(account):
        gate.running[row] += 1
    for _, cohorts in gate.concerned(request):
        cohorts.charge(account, milli)
