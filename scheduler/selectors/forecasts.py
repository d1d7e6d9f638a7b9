"""How well forecasts of starts came true, and how long cycles took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from django.db.models import Exists, Min, OuterRef, Q

from accounts.models import User
from scheduler.models import CycleRecord, JobEvent, StartForecast
from scheduler.states import JobState

WINDOW = timedelta(days=30)
CYCLES = 500


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

    A job is judged once it was started, or when its p90 is over. Jobs that somebody held or
    cancelled before their start are left out: no forecast can know that.
    """
    if not viewer.is_authenticated:
        return []
    was_held = JobEvent.objects.filter(job=OuterRef("pk"), kind="held", at__gte=OuterRef("told_at"))
    told = (
        StartForecast.objects.filter(told_at__gte=now - WINDOW)
        .filter(~Exists(was_held))
        .annotate(started_at=Min("job__attempts__assigned_at"))
        .exclude(Q(started_at__isnull=True) & Q(job__state=JobState.CANCELLED))
        .values_list("job__pool__name", "p50_at", "p90_at", "started_at")
    )
    rows: dict[str, list[tuple[datetime | None, ...]]] = {}
    for pool, *times in told:
        rows.setdefault(pool, []).append(tuple(times))
    return [_accuracy(pool, rows[pool], now) for pool in sorted(rows)]


def _accuracy(pool: str, rows: Sequence[tuple[datetime | None, ...]], now: datetime) -> Accuracy:
    told = [(p50, p90, start) for p50, p90, start in rows if p50 is not None and p90 is not None]
    judged = [(p50, p90, start) for p50, p90, start in told if start is not None or p90 < now]
    soon = sum(start is not None and start <= p50 for p50, _, start in judged)
    late = sum(start is not None and start <= p90 for _, p90, start in judged)
    count = len(judged)
    shares = (soon / count, late / count) if count else (None, None)
    return Accuracy(pool, len(rows), len(told), count, *shares)


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
