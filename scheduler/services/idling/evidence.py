"""Which running attempts do nothing with their GPUs, proven by readings.

Nobody is warned or stopped for what is not known. Each GPU that an attempt holds, on every rank,
has to have told its use in every SPAN_S of the window and just now; each reading has to lie below
the rule's per cent; and nothing else may show work: memory of a GPU that changes, a line of log, a
checkpoint. So a node that is silent, a part of a card whose use nobody tells and a reading that is
missing speak for the job. Readings of simulated GPUs count: they follow what the job computes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import BigIntegerField, Count, Max, Min, QuerySet, Value

from scheduler.models import Allocation, Attempt, DeviceSample, LogChunk, Placement
from scheduler.models.telemetry import may_work
from scheduler.selectors.books.seconds import EpochSecond
from scheduler.states import AttemptState

# A reading is missing where a span has none; the last one is stale after STALE_S.
SPAN_S, STALE_S = 120, 60
# In MiB: what a driver or an allocator moves on a GPU that computes nothing.
_MEMORY_RESTS = 64


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of `gpus` GPUs all `readings` lie below the rule's per cent, the highest at `highest`."""

    gpus: int
    readings: int
    highest: float


@dataclass(slots=True)
class _Seen:
    spans: set[int]
    readings: int = 0
    highest: float = 0.0
    least_mib: int = 0
    most_mib: int = 0


def resting_now(attempts: Collection[int], below: int, *, now: datetime) -> set[int]:
    """Those of which no reading of the last moments shows work; cheap, for most of a cluster goes
    no further."""
    lately = DeviceSample.objects.filter(
        attempt__in=attempts, at__gt=now - timedelta(seconds=STALE_S), at__lte=now
    )
    by_attempt = lately.order_by().values("attempt_id")
    rows = by_attempt.annotate(most=Max("gpu_percent"), least=Min("gpu_percent"))
    return set(rows.filter(most__lt=below, least__gte=0).values_list("attempt_id", flat=True))


def proven_idle(
    ids: Collection[int], below: int, *, since: datetime, now: datetime
) -> dict[int, Evidence]:
    """By attempt the evidence of those that did nothing since then; three statements."""
    if not ids:
        return {}
    held = _held(ids)
    seen = _seen(ids, since, now)
    spans = set(range(0, max(1, int((now - since).total_seconds())), SPAN_S))
    busy = _stirred(ids, since)
    found = {}
    for pk, devices in held.items():
        told = [seen[pk, device] for device in devices if (pk, device) in seen]
        if pk in busy or len(told) < len(devices):
            continue
        if all(_rests(one, below) and spans <= one.spans for one in told):
            readings = sum(one.readings for one in told)
            found[pk] = Evidence(len(devices), readings, max(one.highest for one in told))
    return found


def worked_since(ids: Collection[int], below: int, *, since: datetime, now: datetime) -> set[int]:
    """Those that showed work, or may have: of them no warning stays."""
    if not ids:
        return set()
    readings = DeviceSample.objects.filter(
        may_work(below), attempt__in=ids, at__gt=since, at__lte=now
    )
    busy = set(readings.order_by().values_list("attempt_id", flat=True).distinct())
    return busy | _stirred(ids, since)


def summed_up(attempt: int, *, since: datetime, now: datetime) -> tuple[int, float]:
    """How many readings there are of an attempt, and the highest use that they tell."""
    readings = DeviceSample.objects.filter(attempt=attempt, at__gt=since, at__lte=now)
    found = readings.aggregate(count=Count("pk"), most=Max("gpu_percent"))
    return int(found["count"]), float(found["most"] or 0)


def _rests(one: _Seen, below: int) -> bool:
    return 0 <= one.highest < below and one.most_mib - one.least_mib <= _MEMORY_RESTS


def _held(ids: Collection[int]) -> dict[int, set[int]]:
    """The GPUs that each holds now; an attempt of which a rank has ended is none that rests."""
    rows = Allocation.objects.filter(
        placement__attempt__in=ids,
        placement__attempt__state=AttemptState.RUNNING,
        released_at__isnull=True,
    )
    found: dict[int, set[int]] = {}
    for attempt, device in rows.values_list("placement__attempt_id", "device_id"):
        found.setdefault(attempt, set()).add(device)
    return found


def _seen(ids: Collection[int], since: datetime, now: datetime) -> dict[tuple[int, int], _Seen]:
    """By attempt and GPU; `highest` is below zero where some reading does not tell the use."""
    found: dict[tuple[int, int], _Seen] = {}
    rows = _by_span(ids, since, now)
    for attempt, device, span, count, most, least, most_mib, least_mib in rows:
        one = found.get((attempt, device))
        if one is None:
            one = found[attempt, device] = _Seen(set(), least_mib=least_mib, most_mib=most_mib)
        one.spans.add(span)
        one.readings += count
        one.highest = -1.0 if least < 0 or one.highest < 0 else max(one.highest, most)
        one.least_mib = min(one.least_mib, least_mib)
        one.most_mib = max(one.most_mib, most_mib)
    return found


def _by_span(
    ids: Collection[int], since: datetime, now: datetime
) -> QuerySet[Any, tuple[Any, ...]]:
    """Readings by attempt, GPU and span, which is told by the seconds from its end until now."""
    ago = Value(int(now.timestamp()), BigIntegerField()) - EpochSecond("at")
    span = ago - ago % Value(SPAN_S, BigIntegerField())
    readings = DeviceSample.objects.filter(attempt__in=ids, at__gt=since, at__lte=now)
    return (
        readings.order_by()
        .annotate(span_s=span)
        .values("attempt_id", "device_id", "span_s")
        .annotate(
            count=Count("pk"),
            most=Max("gpu_percent"),
            least=Min("gpu_percent"),
            most_mib=Max("memory_used_mib"),
            least_mib=Min("memory_used_mib"),
        )
        .values_list(
            "attempt_id",
            "device_id",
            "span_s",
            "count",
            "most",
            "least",
            "most_mib",
            "least_mib",
        )
    )


def _stirred(ids: Collection[int], since: datetime) -> set[int]:
    """Those that wrote a line or saved a checkpoint since, or are reading one back."""
    wrote = LogChunk.objects.filter(placement__attempt__in=ids, created_at__gt=since).order_by()
    reads = Placement.objects.filter(attempt__in=ids, checkpoint_pending=True).order_by()
    saved = Attempt.objects.filter(pk__in=ids, checkpoint_at__gt=since).order_by()
    rows = wrote.values_list("placement__attempt_id").union(
        reads.values_list("attempt_id"), saved.values_list("pk")
    )
    return {pk for (pk,) in rows}
