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
    Q,
    QuerySet,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast, Concat

from accounts.models import User
from accounts.models.rows import moment_in
from accounts.permissions import can
from accounts.selectors import visible_projects
from scheduler.models import Booking, Job, MaintenanceWindow
from scheduler.selectors.calendar.bookings import visible_bookings
from scheduler.states import JobState

MOST_JOBS = 2000
# As texts: of thousands of jobs none has one, and Django would read a moment of each.
_SPAN = (Cast("from_at", TextField()), Cast("until_at", TextField()))
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
    viewer: User, start: datetime, end: datetime, *, jobs: bool = True
) -> Iterator[Plan]:
    """Those that meet [start, end), in one statement; planned `jobs` only where the viewer may see
    them, from the median start they were told, for their time limit."""
    others = [_bookings(viewer, start, end), *([_planned(viewer)] if jobs else [])]
    rows = _windows(start, end).union(*others, all=True)
    for kind, number, pool, begins, until, gpus, limit_s, words, whose, more in rows:
        told = json.loads(more)
        if kind != _PLANNED:
            said = words or "maintenance"
            if kind == _BOOKING:
                said = f"{words or 'booking'} · {whose}" if whose else "booked"
            span = moment_in(begins), moment_in(until)
            yield Plan(kind, number, pool, *span, gpus, said, whose, tuple(told))
        elif isinstance(at := told.get("start_p50_at"), int):
            starts = datetime.fromtimestamp(at, start.tzinfo)
            if starts < end:
                ends = starts + timedelta(seconds=limit_s)
                yield Plan(kind, number, pool, starts, ends, gpus, words, whose, ())


def _windows(start: datetime, end: datetime) -> QuerySet[MaintenanceWindow, Any]:
    rows = MaintenanceWindow.objects.filter(from_at__lt=end, until_at__gt=start, cancelled_at=None)
    return rows.order_by().values_list(
        Value(_WINDOW), "pk", "pool", *_SPAN, Value(0), Value(0), "reason",
        Value(""), Cast("nodes", TextField()),
    )  # fmt: skip


def _bookings(viewer: User, start: datetime, end: datetime) -> QuerySet[Booking, Any]:
    rows = Booking.objects.filter(from_at__lt=end, until_at__gt=start, closed_as="")
    own = Q(pk__in=visible_bookings(viewer).order_by().values("pk"))
    path = Concat("project__team__slug", Value("/"), "project__slug", output_field=CharField())
    owner = Case(
        When(project__isnull=False, then=path), default=F("team__slug"), output_field=CharField()
    )
    whose = Case(When(own, then=owner), default=Value(""), output_field=CharField())
    return rows.order_by().values_list(
        Value(_BOOKING), "pk", "pool", *_SPAN, "gpus_per_node", Value(0), "name",
        whose, Cast("node_ids", TextField()),
    )  # fmt: skip


def _planned(viewer: User) -> QuerySet[Job, Any]:
    waiting = Job.objects.filter(may_see(viewer, "project"), state=JobState.QUEUED)
    newest = waiting.order_by("-pk").values("pk")[:MOST_JOBS]
    # Their times are reckoned from what they were told.
    return Job.objects.filter(pk__in=newest).order_by().values_list(
        Value(_PLANNED), "pk", "pool", Value(""), Value(""),
        F("nodes") * F("gpus_per_node"), "time_limit_s", "name",
        "project__team__slug", Cast("wait_facts", TextField()),
    )  # fmt: skip
