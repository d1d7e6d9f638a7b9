"""Every pool's whole hours, counted once they are over: who came, who started after how long."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, TruncHour

from scheduler.models import Attempt, Job, JobEvent, Pool, PoolHour
from scheduler.selectors.forecasts import unforeseen
from scheduler.selectors.waits.buckets import counted
from scheduler.selectors.waits.hours import HOUR, WINDOW
from scheduler.states import JobState

KEPT = timedelta(days=92)


@transaction.atomic
def count_hours(*, now: datetime) -> int:
    """Write the hours that ended since the last count, of the last 28 days at most; how many rows.

    Three queries over jobs and attempts, however many hours. An hour is never counted again.
    """
    until = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    last = PoolHour.objects.aggregate(last=Max("hour"))["last"]
    since = max(until - WINDOW, last + HOUR) if last else until - WINDOW
    if since >= until:
        return 0
    came = _came(since, until)
    rows: dict[tuple[int, datetime], PoolHour] = {}
    waits: dict[tuple[int, datetime], list[float]] = defaultdict(list)
    for pool in Pool.objects.values_list("pk", flat=True):
        hour = since
        while hour < until:
            rows[pool, hour] = PoolHour(
                pool_id=pool,
                hour=hour,
                submitted=came[pool, hour],
                started=0,
                told=0,
                within_p50=0,
                within_p90=0,
            )
            hour += HOUR
    for pool, start, waited_s, p50_at, p90_at, was_changed in _starts(since, until):
        key = pool, start.replace(minute=0, second=0, microsecond=0)
        row = rows[key]
        row.started += 1
        waits[key].append(waited_s)
        # No forecast can know of a hold, or that something else is asked for.
        if p50_at is not None and p90_at is not None and not was_changed:
            row.told += 1
            row.within_p50 += start <= p50_at
            row.within_p90 += start <= p90_at
    for key, found in waits.items():
        rows[key].waits = counted(found)
    PoolHour.objects.filter(hour__lt=now - KEPT).delete()
    PoolHour.objects.bulk_create(rows.values(), ignore_conflicts=True, batch_size=500)
    return len(rows)


def _came(since: datetime, until: datetime) -> Counter[tuple[int, datetime]]:
    """How many jobs began to wait, by pool and hour."""
    came = (
        Job.objects.filter(submitted_at__gte=since, submitted_at__lt=until)
        .order_by()
        .values_list("pool_id", TruncHour("submitted_at", tzinfo=UTC))
        .annotate(count=Count("pk"))
    )
    return Counter({(pool, hour): count for pool, hour, count in came})


def _starts(since: datetime, until: datetime) -> list[tuple[Any, ...]]:
    """Of every first start: pool, when, for how many seconds it had waited for the pool, what it
    was told, and if people held or changed it after that."""
    told_at = OuterRef("job__forecast__told_at")
    was_changed = Exists(unforeseen(OuterRef("job"), told_at, OuterRef("assigned_at")))
    starts = Attempt.objects.filter(number=1, assigned_at__gte=since, assigned_at__lt=until)
    # The pool is that of its first node: the job itself may wait in another one by now.
    rows = (
        starts.filter(placements__rank=0)
        .order_by()
        .annotate(
            waited_from=Coalesce(F("job__yielded_from"), F("job__queued_at")),
            was_changed=was_changed,
        )
        .values_list(
            *("job", "placements__node__pool_id", "assigned_at", "waited_from"),
            *("job__forecast__p50_at", "job__forecast__p90_at", "was_changed"),
        )
    )
    moves = _holds(starts)
    return [
        (pool, start, _waited_s(waited_from, start, moves[job]), *more)
        for job, pool, start, waited_from, *more in rows
    ]


def _holds(starts: QuerySet[Attempt]) -> dict[int, list[tuple[datetime, bool]]]:
    """By job of these starts, in order: when it was held, and when it was let go."""
    moves = (
        JobEvent.objects.filter(
            Q(to_state=JobState.HELD) | Q(from_state=JobState.HELD, to_state=JobState.QUEUED),
            job__in=starts.order_by().values("job"),
        )
        .order_by("job_id", "id")
        .values_list("job_id", "at", "to_state")
    )
    found: dict[int, list[tuple[datetime, bool]]] = defaultdict(list)
    for job, at, state in moves:
        found[job].append((at, state == JobState.HELD))
    return found


def _waited_s(
    waited_from: datetime, start: datetime, moves: Iterable[tuple[datetime, bool]]
) -> float:
    """From then to its start, less what it was held meanwhile."""
    waited, begin = start - waited_from, None
    for at, is_held in moves:
        if at > start:
            break
        if is_held:
            begin = at
        elif begin is not None:
            waited -= max(timedelta(), at - max(begin, waited_from))
            begin = None
    # Its place in the line may be one of after its start by now.
    return max(0.0, waited.total_seconds())
