"""The jobs of a filter as a file: all of them, not the page that is shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import QuerySet

from accounts.models import User
from portal import limits
from portal.forms.grammar.sorts import Sort
from portal.pages.job_rows import job_rows
from portal.reports.streams import StreamedFile, csv_file
from scheduler.models import Job
from scheduler.selectors.jobs import shown_state_of
from scheduler.selectors.ordered.ordering import page_in_order, place_of
from scheduler.states import Tier

BATCH = 500
HEADER = (
    *("number", "name", "state", "ended_as", "team", "project", "owner", "pool", "tier"),
    *("nodes", "gpus", "gpu_model", "submitted_at", "started_at", "ended_at"),
    *("elapsed_s", "time_limit_s", "cost", "why", "finish_by", "finish_by_policy", "group"),
)


def job_csv(viewer: User, found: QuerySet[Job], sort: Sort, *, now: datetime) -> StreamedFile:
    """In the order of the table, tasks of sets one by one; a batch is read at a time."""
    limits.count(limits.EXPORT, viewer.pk)
    return csv_file(HEADER, _rows(viewer, found, sort, now), name=f"jobs-{now:%Y-%m-%d}.csv")


def _rows(
    viewer: User, found: QuerySet[Job], sort: Sort, now: datetime
) -> Iterator[tuple[object, ...]]:
    after = None
    while True:
        jobs = page_in_order(found, sort.column, falls=sort.falls, after=after, limit=BATCH)
        for row in job_rows(viewer, jobs, now=now):
            job = row.job
            yield (
                *(job.pk, job.name, shown_state_of(job), job.end_reason),
                *(job.project.team.slug, job.project.path, job.owner.username, job.pool.name),
                *(Tier(job.tier).name.lower(), job.nodes, job.gpus, job.gpu_model),
                *(_moment(at) for at in (job.submitted_at, job.started_at, job.ended_at)),
                "" if row.elapsed is None else int(row.elapsed.total_seconds()),
                job.time_limit_s,
                "" if row.cost is None else row.cost,
                row.sentence,
                *(_moment(job.finish_by), job.finish_policy or "", job.group_name or ""),
            )
        if len(jobs) < BATCH:
            return
        after = place_of(jobs[-1], sort.column)


def _moment(at: datetime | None) -> str:
    return at.isoformat(timespec="seconds") if at else ""
