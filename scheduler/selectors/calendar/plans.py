"""What is to come: maintenance, bookings, and the starts that waiting jobs were told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import (
    BooleanField,
    Case,
    CharField,
    ExpressionWrapper,
    F,
    FloatField,
    Q,
    QuerySet,
    TextField,
    Value,
    When,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Concat

from accounts.models import User
from accounts.models.rows import moment_in
from accounts.permissions import can
from accounts.selectors import visible_projects
from scheduler.models import Booking, Job, MaintenanceWindow, Pool
from scheduler.selectors.calendar.bookings import visible_bookings
from scheduler.states import JobState

MOST_JOBS = 2000
_WINDOW, _BOOKING, _PLANNED = "maintenance", "booking", "planned"


@dataclass(frozen=True, slots=True)
class Plan:
    """`kind`: maintenance, booking or planned; `number`: of that row; `pool`: its id; `nodes`: ids.

    `words` of a booking that is not the viewer's say no more than that it is one.
    """

    kind: str
    number: int
    pool: int
    start: datetime
    end: datetime
    gpus: int
    words: str
    team: str
    nodes: tuple[int, ...]


def may_see(viewer: User, project: str) -> Any:
    """Whether the job of that project, named by its way from the row, is the viewer's business."""
    if can(viewer, "see_jobs", None):
        return Value(True, output_field=BooleanField())
    seen = Q(**{f"{project}__in": visible_projects(viewer).order_by().values("pk")})
    return ExpressionWrapper(seen, output_field=BooleanField())


def plans_between(
    viewer: User,
    start: datetime,
    end: datetime,
    *,
    pool: Pool | None = None,
    jobs: bool = True,
) -> Iterator[Plan]:
    """Those that meet [start, end), of one pool or all, in one statement; planned `jobs` only where
    the viewer may see them, the first MOST_JOBS, from the median start they were told, for their
    time limit. What was closed before its end counts until then."""
    of_pool = Q() if pool is None else Q(pool=pool)
    bookings = _bookings(viewer, of_pool & _meets("closed_at", start, end))
    others = [bookings, *([_planned(viewer, of_pool, start, end)] if jobs else [])]
    rows = _windows(of_pool & _meets("cancelled_at", start, end)).union(*others, all=True)
    for kind, number, pool_id, begins, until, gpus, limit_s, words, whose, more in rows:
        told = json.loads(more)
        if kind != _PLANNED:
            said = words or "maintenance"
            if kind == _BOOKING:
                said = f"{words or 'booking'} · {whose}" if whose else "booked"
            span = moment_in(begins), moment_in(until)
            yield Plan(kind, number, pool_id, *span, gpus, said, whose, tuple(told))
        else:
            starts = datetime.fromtimestamp(told["start_p50_at"], start.tzinfo)
            ends = starts + timedelta(seconds=limit_s)
            yield Plan(kind, number, pool_id, starts, ends, gpus, words, whose, ())


def _meets(closed: str, start: datetime, end: datetime) -> Q:
    """What lies there; what was `closed` before it began was never there."""
    was_there = [Q(**{f"{closed}__gt": since}) for since in (F("from_at"), start)]
    stayed = Q(**{closed: None}) | (was_there[0] & was_there[1])
    return stayed & Q(from_at__lt=end, until_at__gt=start)


def _span(closed: str) -> tuple[Cast, Cast]:
    """As texts: of thousands of jobs none has one, and Django would read a moment of each."""
    over = Coalesce(closed, "until_at")
    return Cast("from_at", TextField()), Cast(over, TextField())


def _windows(which: Q) -> QuerySet[MaintenanceWindow, Any]:
    rows = MaintenanceWindow.objects.filter(which)
    return rows.order_by().values_list(
        Value(_WINDOW), "pk", "pool", *_span("cancelled_at"), Value(0), Value(0), "reason",
        Value(""), Cast("nodes", TextField()),
    )  # fmt: skip


def _bookings(viewer: User, which: Q) -> QuerySet[Booking, Any]:
    rows = Booking.objects.filter(which)
    own = Q(pk__in=visible_bookings(viewer).order_by().values("pk"))
    path = Concat("project__team__slug", Value("/"), "project__slug", output_field=CharField())
    owner = Case(
        When(project__isnull=False, then=path), default=F("team__slug"), output_field=CharField()
    )
    whose = Case(When(own, then=owner), default=Value(""), output_field=CharField())
    return rows.order_by().values_list(
        Value(_BOOKING), "pk", "pool", *_span("closed_at"), "gpus_per_node", Value(0), "name",
        whose, Cast("node_ids", TextField()),
    )  # fmt: skip


def _planned(viewer: User, of_pool: Q, start: datetime, end: datetime) -> QuerySet[Job, Any]:
    told = Cast(KeyTextTransform("start_p50_at", "wait_facts"), FloatField())
    waiting = Job.objects.filter(of_pool, may_see(viewer, "project"), state=JobState.QUEUED)
    there = waiting.annotate(begin_s=told, end_s=told + F("time_limit_s"))
    # In this order: of nearly all that wait nobody knows when they start, which SQLite reads as 0.
    there = there.filter(end_s__gt=start.timestamp()).filter(begin_s__lt=end.timestamp())
    first = there.order_by("begin_s", "pk").values("pk")[:MOST_JOBS]
    # Their times are reckoned from what they were told.
    return Job.objects.filter(pk__in=first).order_by().values_list(
        Value(_PLANNED), "pk", "pool", Value(""), Value(""),
        F("nodes") * F("gpus_per_node"), "time_limit_s", "name",
        "project__team__slug", Cast("wait_facts", TextField()),
    )  # fmt: skip
