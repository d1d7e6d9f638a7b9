"""Schedules, for a viewer: those of the projects whose jobs the viewer sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from accounts.errors import NotFound
from accounts.models import Project, User
from accounts.permissions import can, projects_visible_to, reads_inside
from scheduler.models import JobSchedule, JobScheduleRun
from scheduler.selectors.prices.seen import priced_for
from scheduler.selectors.recurring.ended import is_over
from scheduler.selectors.tables.so_far import so_far
from scheduler.spec import JobSpec
from scheduler.spec.recurring.dues import dues_after

MAX_PK = 2**63 - 1
TIMES_AHEAD = 5
_LATELY = 10
_MONTH = timedelta(days=30)
# A rule of every minute has 43 200 times a month: beyond so many it is taken to go on as before.
_COUNTED = 500


def visible_schedules(
    viewer: User, *, project: Project | None = None, mine: bool = False
) -> QuerySet[JobSchedule]:
    """By name, each with what came of its last due time: `last_due_at`, `last_outcome`, `last_job`
    (a number) and `last_state`, None for none."""
    seen = JobSchedule.objects.select_related(
        "project__team", "owner", "paused_by", "template__template"
    )
    if not viewer.is_authenticated:
        return seen.none()
    if not can(viewer, "see_jobs", None):
        seen = seen.filter(project__in=projects_visible_to(viewer))
    if project is not None:
        seen = seen.filter(project=project)
    if mine:
        seen = seen.filter(owner=viewer)
    runs = JobScheduleRun.objects.filter(schedule=OuterRef("pk")).order_by("-due_at", "-pk")
    return seen.annotate(
        last_due_at=Subquery(runs.values("due_at")[:1]),
        last_outcome=Subquery(runs.values("outcome")[:1]),
        last_job=Subquery(runs.values("job")[:1]),
        last_state=Subquery(runs.values("job__state")[:1]),
    ).order_by("name", "pk")


def get_visible_schedule(viewer: User, pk: int) -> JobSchedule:
    """Raises NotFound for a missing and for a foreign one alike."""
    found = visible_schedules(viewer).filter(pk=pk).first() if 0 < pk <= MAX_PK else None
    if found is None:
        raise NotFound("There is no such schedule for you.")
    return found


def runs_of(viewer: User, schedule: JobSchedule) -> QuerySet[JobScheduleRun]:
    """What came of its due times, the latest first, with their jobs; for a schedule that the caller
    has found for the viewer."""
    jobs = ("job__project__team", "job__owner", "job__job_set")
    return schedule.runs.select_related(*jobs).order_by("-due_at", "-pk")


def ended_lately(viewer: User, schedule: JobSchedule) -> list[JobScheduleRun]:
    """Of `runs_of` the last few whose jobs are over, by which `ahead_of` says what comes; one
    statement."""
    return list(runs_of(viewer, schedule).filter(is_over())[:_LATELY])


def costs_of_runs(
    viewer: User, runs: Iterable[JobScheduleRun], *, now: datetime
) -> Mapping[int, Decimal]:
    """What the job of each run has cost until now, of an array all tasks; where the viewer may see
    it. Two statements."""
    runs = list({run.pk: run for run in runs}.values())
    jobs = [run.job for run in runs if run.job is not None]
    sets = [job.job_set for job in jobs if job.job_set is not None]
    alone = [job for job in jobs if job.job_set is None]
    if not jobs:
        return {}
    told = so_far(viewer, alone, sets=sets, now=now)
    costs = {}
    for run in runs:
        if run.job is not None:
            of_set = run.job.job_set_id
            cost = told.sets.get(of_set) if of_set else told.jobs.get(run.job.pk)
            if cost is not None:
                costs[run.pk] = cost
    return costs


@dataclass(frozen=True, slots=True)
class Ahead:
    """What comes: the next `times`, about how many in 30 days, and about what they cost then by the
    mean of the last ones that ended; None where nobody knows, or may."""

    times: tuple[datetime, ...]
    a_month: int
    mean_cost: Decimal | None

    @property
    def month_cost(self) -> Decimal | None:
        """If none is skipped."""
        return None if self.mean_cost is None else self.mean_cost * self.a_month


def ahead_of(
    schedule: JobSchedule,
    runs: Sequence[JobScheduleRun],
    costs: Mapping[int, Decimal],
    *,
    now: datetime,
) -> Ahead:
    """`runs` of `ended_lately`, with `costs_of_runs`. Asks the database nothing."""
    over = [costs[run.pk] for run in runs if run.pk in costs]
    mean = sum(over, Decimal(0)) / len(over) if over else None
    return Ahead(times_of(schedule, now), _a_month(schedule, now), mean)


def times_of(schedule: JobSchedule, now: datetime, most: int = TIMES_AHEAD) -> tuple[datetime, ...]:
    """Its next due times, none while it is paused or over; in UTC."""
    if schedule.next_due_at is None or schedule.unread:
        return ()
    before = max(now, schedule.next_due_at - timedelta(microseconds=1))
    found = islice(dues_after(schedule.time_rule, schedule.zone_info, before), most)
    return tuple(at for at in found if schedule.ends_at is None or at <= schedule.ends_at)


def shown_document(viewer: User, schedule: JobSchedule) -> dict[str, Any] | None:
    """The job that it submits, as people write it; None for who may not read inside the jobs of its
    project. Only its owner sees the values of variables that hold secrets, and its highest price
    only who may see what it costs."""
    if not reads_inside(viewer, schedule.project):
        return None
    spec = JobSpec.model_validate(schedule.document)
    if schedule.owner_id != viewer.pk:
        spec = priced_for(viewer, schedule, spec.for_others())
    return spec.readable()


def _a_month(schedule: JobSchedule, now: datetime) -> int:
    times = times_of(schedule, now, _COUNTED)
    within = sum(at <= now + _MONTH for at in times)
    if within < _COUNTED:
        return within
    return int(_COUNTED * (_MONTH / (times[-1] - now)))
