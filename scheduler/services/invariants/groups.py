"""Rows of groups of which the newest job counts, for invariants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Max, Min, Q, QuerySet

from scheduler.invariants.rows import Row, Rows, plain
from scheduler.models import Attempt, Job, JobSet
from scheduler.services.invariants.reading import JOBS
from scheduler.states import EndReason

OWNERS = 50
_MEMBER = ("id", "state", "owner_id", "project_id", "group_name", "job_set_id")


def members_of_groups() -> Iterator[Rows]:
    """What has not ended of groups, so many owners at a time, and the newest of each: of an array
    one task that has not, and one that was tried."""
    members = Job.objects.filter(group_name__isnull=False, ended_at__isnull=True).order_by()
    owners = sorted(members.values_list("owner", flat=True).distinct())
    for begin in range(0, len(owners), OWNERS):
        yield _of_owners(members.filter(owner__in=owners[begin : begin + OWNERS]))


def superseded(since: datetime | None) -> Iterator[Rows]:
    """Jobs that had to give way to a newer one since then, with that one."""
    jobs = Job.objects.filter(end_reason=EndReason.SUPERSEDED)
    if since is not None:
        jobs = jobs.filter(ended_at__gte=since)
    last = 0
    while part := _read(jobs.filter(pk__gt=last).order_by("pk")[:JOBS], "end_reason", "end_facts"):
        last = part[-1]["id"]
        told = [row["end_facts"] or {} for row in part]
        sets = [one["newer_set"] for one in told if "newer_set" in one]
        alone = [one["newer_job"] for one in told if "newer_job" in one]
        newer = Job.objects.filter(Q(pk__in=alone) | Q(pk__in=_one_of_each(sets)))
        yield Rows({"job": part, "newer": _read(newer)})


def _of_owners(members: QuerySet[Job]) -> Rows:
    alone = _read(members.filter(job_set__isnull=True))
    sets = list(members.filter(job_set__isnull=False).values_list("job_set", flat=True).distinct())
    tasks = _read(members.filter(job_set__in=sets, pk__in=_one_of_each(sets, members)))
    tried = Attempt.objects.filter(job__job_set__in=sets).order_by().values("job__job_set")
    attempts = Attempt.objects.filter(
        Q(job__in=[row["id"] for row in alone])
        | Q(pk__in=tried.annotate(first=Min("pk")).values("first"))
    )
    began = list(attempts.values("id", "job_id"))
    others = _read(Job.objects.filter(pk__in=[one["job_id"] for one in began]))
    newest = _read(_newest_of([*alone, *tasks]))
    jobs = {row["id"]: row for row in (*alone, *tasks, *others, *newest)}
    named = {row["job_set_id"] for row in jobs.values()} - {None}
    return Rows(
        {
            "job": list(jobs.values()),
            "attempt": [plain(row) for row in began],
            "jobset": list(JobSet.objects.filter(pk__in=named).values("id", "rerun_of_id")),
        }
    )


def _newest_of(members: Sequence[Row]) -> QuerySet[Job]:
    """The last of each of their groups that is no array of failed tasks run again."""
    there = Job.objects.filter(
        group_name__in={row["group_name"] for row in members},
        owner__in={row["owner_id"] for row in members},
        job_set__rerun_of__isnull=True,
    )
    last = there.order_by().values("owner", "project", "group_name").annotate(last=Max("pk"))
    return Job.objects.filter(pk__in=last.values("last"))


def _one_of_each(sets: Sequence[int], of: QuerySet[Job] | None = None) -> QuerySet[Job, Any]:
    """A task of each of these arrays."""
    tasks = (Job.objects.all() if of is None else of).filter(job_set__in=sets).order_by()
    return tasks.values("job_set").annotate(first=Min("pk")).values("first")


def _read(rows: QuerySet[Job], *more: str) -> list[Row]:
    return [plain(row) for row in rows.values(*_MEMBER, *more)]
