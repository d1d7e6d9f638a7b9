"""Who waits for a job, or for all tasks of an array: a column beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from django.db.models import QuerySet

from accounts.models import User
from accounts.models.rows import AsJson, as_rows, rows_in
from scheduler.models import Dependency, Job, SetDependency
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
    return as_rows(_waiting(viewer, job, job_set), "id", "job_set_id")


def waiters_in(text: str | None) -> Waiters:
    """What the column says."""
    return _told(rows_in(text))


def waiters_of(viewer: User, *, job: int | None = None, job_set: int | None = None) -> Waiters:
    """The same where nothing else is read; one statement."""
    return _told(_waiting(viewer, job, job_set).values_list("id", "job_set_id"))


def _waiting(viewer: User, job: int | None, job_set: int | None) -> QuerySet[Job]:
    """One more than are told, so that it is seen whether there are more."""
    rows: Any = Dependency.objects.filter(on=job)
    if job_set is not None:
        rows = SetDependency.objects.filter(on=job_set)
    waiting = visible_jobs(viewer).filter(state=JobState.HELD, pk__in=rows.values("job"))
    return one_of_each_set(waiting, first=True).order_by("pk")[: MOST_WAITERS + 1]


def _told(rows: Iterable[Sequence[Any]]) -> Waiters:
    found = tuple(
        Waiter(job if job_set is None else job_set, job_set is not None)
        for job, job_set in sorted(rows, key=itemgetter(0))
    )
    return Waiters(found[:MOST_WAITERS], len(found) > MOST_WAITERS)
