"""What happened to a job, as its readers are told: of an attempt's checkpoints two lines, the first
and the newest, not one for each minute of days."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from accounts.models import User
from scheduler.models import Job, JobEvent
from scheduler.selectors.jobs import check_visible

CHECKPOINT = "checkpoint"
# Kinds of events, and which fact of each says what lies in the job's folders, or what its GPUs did.
_INSIDE = {"starts_anew": "detail", "assigned": "starts_anew", "idle_warned": "evidence"}
# Of the last event of an attempt's checkpoints: how many there are, and the newest one itself,
# which may be less than a minute younger than what was told last.
NEWEST = ("times_", "newest_step_", "newest_bytes_", "newest_at_")


def job_events(viewer: User, job: Job) -> QuerySet[JobEvent]:
    """The job's history, oldest first; of each attempt's checkpoints the first and the last."""
    check_visible(viewer, job)
    events = told_events(job.pk).annotate(**newest_along(job.pk))
    return events.select_related("actor", "attempt").order_by("id")


def told_events(job: int) -> QuerySet[JobEvent]:
    """The job's events, without the checkpoints between the first and the last that was told of
    each attempt. In no order."""
    saved = _saved(job)
    first = saved.values("attempt").annotate(end_=Min("pk")).values("end_")
    shown = ~Q(kind=CHECKPOINT) | Q(pk__in=first) | Q(pk__in=_last(saved))
    return JobEvent.objects.filter(shown, job=job).order_by()


def newest_along(job: int) -> dict[str, Any]:
    """NEWEST as columns of such events; `times_` is None for all that is no such last one."""
    saved = _saved(job)
    same = saved.filter(attempt=OuterRef("attempt")).values("attempt")
    times = Coalesce(Subquery(same.annotate(times_=Count("pk")).values("times_")), 1)
    return {
        "times_": Case(When(pk__in=_last(saved), then=times)),
        "newest_step_": F("attempt__checkpoint_step"),
        "newest_bytes_": F("attempt__checkpoint_bytes"),
        "newest_at_": F("attempt__checkpoint_at"),
    }


def _saved(job: int) -> QuerySet[JobEvent]:
    return JobEvent.objects.filter(job=job, kind=CHECKPOINT).order_by()


def _last(saved: QuerySet[JobEvent]) -> QuerySet[JobEvent, Any]:
    return saved.values("attempt").annotate(end_=Max("pk")).values("end_")


def shown_facts(event: JobEvent, *, may_read: bool) -> dict[str, Any]:
    """What an event says beside its kind; without what lies inside the job, such as names of its
    files, for whoever may not read that.

    The last of an attempt's checkpoints says as well how many were told (`times`, one a minute at
    most) and what the newest is (`newest_step`, `newest_bytes`, `newest_at`).
    """
    left_out = "" if may_read else _INSIDE.get(event.kind, "")
    facts = {name: fact for name, fact in event.detail.items() if name != left_out}
    if getattr(event, NEWEST[0], None) is None:
        return facts
    times, step, size, at = (getattr(event, name) for name in NEWEST)
    facts["times"] = times
    newest = {"newest_step": step, "newest_bytes": size, "newest_at": at.isoformat()} if at else {}
    return facts | newest
