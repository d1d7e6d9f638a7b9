"""Rows of schedules and of what came of their due times, for invariants."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from scheduler.invariants.rows import Row, Rows, plain
from scheduler.models import Attempt, Job, JobSchedule, JobScheduleRun
from scheduler.services.invariants.reading import ROWS
from scheduler.states import FINAL_JOB_STATES

_RUN = ("id", "schedule_id", "due_at", "by_hand", "at", "outcome", "job_id", "said")


def standing_schedules() -> Iterator[Rows]:
    """All schedules, so many at a time, with what has come of paused ones since their pause."""
    fields = ("id", "next_due_at", "paused_at")
    found = JobSchedule.objects.order_by("pk").values(*fields).iterator(ROWS)
    while part := [plain(row) for row in islice(found, ROWS)]:
        paused = [row["id"] for row in part if row["paused_at"] is not None]
        since = JobScheduleRun.objects.filter(schedule__in=paused, at__gt=F("schedule__paused_at"))
        yield Rows({"jobschedule": part, "jobschedulerun": _read(since, *_RUN)})


def runs_of_schedules(since: datetime | None) -> Iterator[Rows]:
    """What came of due times since then, and of earlier ones whose jobs went on until then; with
    those jobs and their attempts. All of a schedule is in one part."""
    runs = JobScheduleRun.objects.order_by()
    if since is not None:
        went_on = ~Q(state__in=FINAL_JOB_STATES) | Q(ended_at__gte=since)
        alone = Job.objects.filter(went_on, pk=OuterRef("job"))
        tasks = Job.objects.filter(went_on, job_set=OuterRef("job__job_set"))
        runs = runs.filter(Q(at__gte=since) | Exists(alone) | Exists(tasks))
    counted = runs.values_list("schedule").annotate(Count("pk")).order_by("schedule")
    part: list[int] = []
    size = 0
    for schedule, count in list(counted):
        if part and size + count > ROWS:
            yield _these(runs.filter(schedule__in=part), part)
            part, size = [], 0
        part.append(schedule)
        size += count
    if part:
        yield _these(runs.filter(schedule__in=part), part)


def _these(runs: QuerySet[JobScheduleRun], schedules: list[int]) -> Rows:
    named = list(runs.filter(job__isnull=False).values_list("job_id", "job__job_set_id"))
    sets = {job_set for _, job_set in named if job_set is not None}
    jobs = Job.objects.filter(Q(pk__in=[job for job, _ in named]) | Q(job_set__in=sets))
    found = _read(jobs, "id", "job_set_id", "owner_id", "project_id")
    tries = Attempt.objects.filter(job__in=[row["id"] for row in found])
    mine = JobSchedule.objects.filter(pk__in=schedules)
    return Rows(
        {
            "jobschedulerun": _read(runs, *_RUN),
            "jobschedule": _read(mine, "id", "owner_id", "project_id", "owned_from"),
            "job": found,
            "attempt": _read(tries, "id", "job_id", "assigned_at", "ended_at"),
        }
    )


def _read(rows: QuerySet[Any], *fields: str) -> list[Row]:
    return [plain(row) for row in rows.order_by().values(*fields)]
