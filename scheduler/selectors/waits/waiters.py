"""Who waits for a job, or for all tasks of an array: a column beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accounts.models import User
from accounts.models.rows import AsJson, as_rows, rows_in
from scheduler.models import Dependency, SetDependency
from scheduler.selectors.jobs import one_of_each_set, visible_jobs
from scheduler.states import JobState

# Beside so many it says that there are more.
MOST_WAITERS = 10


@dataclass(frozen=True, slots=True)
class Waiter:
    """A job that waits, or, once for all its tasks, a set."""

    number: int
    is_set: bool


@dataclass(frozen=True, slots=True)
class Waiters:
    """Those that wait, the oldest first, MOST_WAITERS at most."""

    shown: tuple[Waiter, ...] = ()
    has_more: bool = False


def waiters_along(viewer: User, *, job: int | None = None, job_set: int | None = None) -> AsJson:
    """A column with the held jobs that the viewer may see and that wait for this job, or set."""
    rows: Any = Dependency.objects.filter(on=job)
    if job_set is not None:
        rows = SetDependency.objects.filter(on=job_set)
    waiting = visible_jobs(viewer).filter(state=JobState.HELD, pk__in=rows.values("job"))
    each = one_of_each_set(waiting, first=True).order_by("pk")
    return as_rows(each[: MOST_WAITERS + 1], "id", "job_set_id")


def waiters_in(text: str | None) -> Waiters:
    """What the column says."""
    told = sorted(rows_in(text))
    found = tuple(
        Waiter(job if job_set is None else job_set, job_set is not None) for job, job_set in told
    )
    return Waiters(found[:MOST_WAITERS], len(found) > MOST_WAITERS)
