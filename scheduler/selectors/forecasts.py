"""How well forecasts of starts came true, and how long cycles took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from django.db.models import Count, Exists, F, FilteredRelation, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce

from accounts.models import User
from scheduler.models import CycleRecord, JobEvent, StartForecast
from scheduler.states import JobState

WINDOW = timedelta(days=30)
CYCLES = 500
UNFORESEEN = tuple(
    "held request_changed nodes_changed limit_changed tier_changed turn_changed "
    "moved_to_pool".split()
)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Of a pool's jobs that had to wait: how many were told a start and came to it, or are overdue.

    `within_p50` and `within_p90` are shares of `judged`, None while nobody is.
    """

    pool: str
    waited: int
    told: int
    judged: int
    within_p50: float | None
    within_p90: float | None


@dataclass(frozen=True, slots=True)
class CycleTimes:
    """p50 and p95 of the phases of the last recorded cycles, in milliseconds."""

    cycles: int
    total_ms: tuple[float, float]
    load_ms: tuple[float, float]
    plan_ms: tuple[float, float]
    commit_ms: tuple[float, float]
    most_statements: int


def forecast_accuracy(viewer: User, *, now: datetime) -> list[Accuracy]:
    """By pool, of the jobs told in the last 30 days; sums alone, so every signed-in person may see.

    A job is judged once it was started, or when its p90 is over. Jobs that somebody held, changed
    or cancelled before their start are left out: no forecast can know that. One query, whose
    answer is a row per pool.
    """
    if not viewer.is_authenticated:
        return []
    first = FilteredRelation("job__attempts", condition=Q(job__attempts__number=1))
    told = StartForecast.objects.filter(told_at__gte=now - WINDOW).annotate(first=first)
    told = told.annotate(started_at=F("first__assigned_at"))
    was_cancelled = Q(started_at=None, job__state=JobState.CANCELLED)
    was_told = Q(p50_at__isnull=False, p90_at__isnull=False)
    judged = was_told & (Q(started_at__isnull=False) | Q(p90_at__lt=now))
    rows = (
        told.exclude(was_cancelled)
        .exclude(Exists(unforeseen(OuterRef("pk"), OuterRef("told_at"), OuterRef("started_at"))))
        .values("job__pool__name")
        .annotate(
            waited_=Count("pk"),
            told_=Count("pk", filter=was_told),
            judged_=Count("pk", filter=judged),
            soon_=Count("pk", filter=was_told & Q(started_at__lte=F("p50_at"))),
            late_=Count("pk", filter=was_told & Q(started_at__lte=F("p90_at"))),
        )
        .order_by("job__pool__name")
        .values_list("job__pool__name", "waited_", "told_", "judged_", "soon_", "late_")
    )
    return [
        Accuracy(pool, waited, told_, of, *((soon / of, late / of) if of else (None, None)))
        for pool, waited, told_, of, soon, late in rows
    ]


def unforeseen(job: OuterRef, told_at: OuterRef, started_at: OuterRef) -> QuerySet[JobEvent]:
    """What people did to a job between what it was told and its start: another job was judged."""
    events = JobEvent.objects.filter(job=job, kind__in=UNFORESEEN, at__gte=told_at)
    return events.filter(at__lte=Coalesce(started_at, F("at")))


def cycle_times(viewer: User) -> CycleTimes | None:
    """Of the last recorded cycles; None while there are none."""
    if not viewer.is_authenticated:
        return None
    fields = ("duration_ms", "load_ms", "plan_ms", "commit_ms", "statements")
    rows = list(CycleRecord.objects.order_by("-id").values_list(*fields)[:CYCLES])
    if not rows:
        return None
    columns = list(zip(*rows, strict=True))
    total, load, plan, commit = (
        (_quantile(column, 0.5), _quantile(column, 0.95)) for column in columns[:4]
    )
    return CycleTimes(len(rows), total, load, plan, commit, int(max(columns[4])))


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[max(0, ceil(share * len(ordered)) - 1)], 1)
