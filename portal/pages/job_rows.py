"""Rows of job lists: each job with what a line about it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from accounts.models import User
from scheduler.models import Job
from scheduler.selectors.jobs import end_sentence_of, wait_sentence_of
from scheduler.selectors.queues import place_in_line, start_window
from scheduler.selectors.sets import SetInFull, SetView, set_view, set_views
from scheduler.selectors.tables.of_sets import Told
from scheduler.selectors.tables.so_far import SoFar, Span, so_far
from scheduler.states import FINAL_JOB_STATES, WAITING_JOB_STATES, JobState, Tier


@dataclass(frozen=True, slots=True)
class JobRow:
    """`elapsed` is the running time so far; `cost`, and what it costs an hour while it is live,
    None when that is not for this viewer; `nodes` those that it is on. `warnings`: how many lines
    of its last attempt's logs say warn, 0 also where they are not counted or not for this viewer.

    With a `view` the job is one task that stands for its whole set.
    """

    job: Job
    is_unreachable: bool
    elapsed: timedelta | None
    cost: Decimal | None
    sentence: str
    hourly: Decimal | None = None
    nodes: Sequence[str] = ()
    view: SetView | None = None
    began: datetime | None = None
    warnings: int = 0

    @property
    def tier(self) -> str:
        """The word of its tier."""
        return Tier(self.job.tier).name.lower()

    @property
    def ends_by(self) -> datetime | None:
        """When its time is up; None while it does not run."""
        return ends_by(self.job, self.began)

    @property
    def total(self) -> Decimal | None:
        """What it costs; of a set all its tasks."""
        return self.cost if self.view is None else self.view.cost

    @property
    def start_p50(self) -> datetime | None:
        """When it probably starts; None while it does not wait for its turn, or nobody knows."""
        return start_window(self.job)[0]

    @property
    def start_p90(self) -> datetime | None:
        """When it starts at the latest, as far as that can be known."""
        return start_window(self.job)[1]

    @property
    def position(self) -> int | None:
        """Its place in the line as the last look found it; None where nobody knows."""
        return place_in_line(self.job)


def rows_and_sets(
    viewer: User,
    jobs: Iterable[Job],
    *,
    now: datetime,
    known: Mapping[int, Told] | None = None,
) -> list[JobRow]:
    """As `job_rows`, tasks of sets as their set; one statement more, however many sets, unless it
    is `known` what their tasks are at."""
    jobs, sets = list(jobs), set()
    for job in jobs:
        if job.job_set is not None:
            # The same row, which is there already.
            job.job_set.project = job.project
            sets.add(job.job_set)
    told = so_far(viewer, jobs, sets=sets, now=now)
    if known is not None:
        views = {s.pk: set_view(s, known[s.pk], told.sets.get(s.pk), now=now) for s in sets}
    else:
        views = set_views(viewer, sets, now=now, costs=told.sets) if sets else {}
    return [
        replace(row, view=view, hourly=told.sets_hourly.get(view.job_set.pk))
        if (view := views.get(row.job.job_set_id or 0))
        else row
        for row in _rows(jobs, told, now)
    ]


def rows_of_set(
    viewer: User, found: SetInFull, jobs: list[Job], *, now: datetime
) -> tuple[list[JobRow], SetView]:
    """These of its tasks as `job_rows`, and the sums of the whole set; two statements."""
    told = so_far(viewer, jobs, sets={found.job_set}, now=now)
    view = set_view(found.job_set, found.told, told.sets.get(found.job_set.pk), now=now)
    return _rows(jobs, told, now), view


def job_rows(viewer: User, jobs: Iterable[Job], *, now: datetime) -> list[JobRow]:
    """Two statements, however many jobs."""
    jobs = list(jobs)
    return _rows(jobs, so_far(viewer, jobs, now=now), now)


def _rows(jobs: Iterable[Job], told: SoFar, now: datetime) -> list[JobRow]:
    return [
        JobRow(
            job,
            job.pk in told.silent,
            elapsed_of(job, told.ran.get(job.pk), now),
            told.jobs.get(job.pk),
            sentence_of(job),
            told.hourly.get(job.pk),
            sorted(told.nodes.get(job.pk, ())),
            began=told.ran.get(job.pk, (None, None))[0],
            warnings=told.warned.get(job.pk, 0),
        )
        for job in jobs
    ]


def elapsed_of(job: Job, ran: Span | None, now: datetime) -> timedelta | None:
    """From the start of its latest attempt to its end, or to now; None between attempts.

    `ran`: that attempt's begin and end. The job's own begin is its first attempt's.
    """
    if ran is None or job.state in WAITING_JOB_STATES:
        return None
    return (ran[1] or job.ended_at or now) - ran[0]


def ends_by(job: Job, began: datetime | None) -> datetime | None:
    """When the time of its attempt that began then is up; None while it does not run."""
    if job.state != JobState.RUNNING or began is None:
        return None
    return began + timedelta(seconds=job.time_limit_s)


def sentence_of(job: Job) -> str:
    """Why it waits, or how it ended; empty for a job that runs or succeeded."""
    waits = wait_sentence_of(job)
    if waits or job.state not in FINAL_JOB_STATES or job.state == "succeeded":
        return waits
    return end_sentence_of(job)
