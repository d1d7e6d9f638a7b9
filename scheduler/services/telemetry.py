"""Readings in, old readings out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db import models, transaction
from django.db.models import Avg, Count, Max, QuerySet
from django.db.models.functions import Cast, Coalesce, Round, TruncHour

from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import (
    Attempt,
    CycleRecord,
    Device,
    DeviceHour,
    DeviceSample,
    HostSample,
    Node,
)
from scheduler.models.telemetry import KNOWN_USE, UNKNOWN_USE
from scheduler.selectors.books.seconds import idle_spans
from scheduler.services.gathering import Step, afterwards
from scheduler.services.timeline.readings.hours import forget_hours
from scheduler.services.timeline.wasted_days import undo_late
from scheduler.wire import readings
from scheduler.wire.messages import SyncRequest

MAX_SAMPLES = 5000
_SLOWED = ("slowed_by_heat", "slowed_by_power")


def ingest_samples(*, node: Node, request: SyncRequest, now: datetime) -> int:
    """Store the readings that came with a sync; repeated ones are the same row.

    Readings of devices the node does not have, from the future or older than the retention are
    dropped: they can only be a wrong clock. Returns how many were kept.
    """
    samples = (*request.samples, *request.unrated)[:MAX_SAMPLES]
    rows = _device_rows(node, samples, now) if samples else []
    if rows:
        DeviceSample.objects.bulk_create(rows, ignore_conflicts=True)
        moments = (row.at for row in rows if row.attempt_id)
        afterwards(Step.UNDO_SUMS, undo_late, moments, now=now)
        jobs = Attempt.objects.filter(pk__in={r.attempt_id for r in rows if r.attempt_id})
        for job_id in jobs.values_list("job_id", flat=True):
            events.publish_on_commit(f"job:{job_id}", "samples")
    host = request.host_sample
    at = _moment(host.at, now) if host else None
    if host is not None and at is not None:
        HostSample.objects.bulk_create(
            [
                HostSample(
                    node=node,
                    at=at,
                    cpu_percent=min(max(host.cpu_percent, 0.0), 100.0),
                    memory_used_mib=max(0, host.memory_used_mib),
                    scratch_free_mib=max(0, host.scratch_free_mib),
                )
            ],
            ignore_conflicts=True,
        )
    return len(rows)


def _device_rows(
    node: Node, samples: Sequence[readings.DeviceSample], now: datetime
) -> list[DeviceSample]:
    ids = dict(Device.objects.filter(node=node).values_list("uuid", "pk"))
    fences = {sample.fence for sample in samples if sample.fence is not None}
    mine = set(
        Attempt.objects.filter(pk__in=fences, placements__node=node).values_list("pk", flat=True)
    )
    rows = []
    for sample in samples:
        at = _moment(sample.at, now)
        if sample.uuid not in ids or at is None:
            continue
        rows.append(
            DeviceSample(
                device_id=ids[sample.uuid],
                attempt_id=sample.fence if sample.fence in mine else None,
                at=at,
                gpu_percent=UNKNOWN_USE
                if sample.gpu_percent is None
                else min(max(sample.gpu_percent, 0.0), 100.0),
                memory_used_mib=max(0, sample.memory_used_mib),
                power_watts=max(0.0, sample.power_watts),
                temperature_c=sample.temperature_c,
                slowed_by_heat=_per_cent(sample.slowed_by_heat),
                slowed_by_power=_per_cent(sample.slowed_by_power),
            )
        )
    return rows


def _per_cent(is_slowed: bool | None) -> int | None:
    return None if is_slowed is None else 100 * is_slowed


def _moment(epoch_s: float, now: datetime) -> datetime | None:
    age_s = now.timestamp() - epoch_s
    if -60 <= age_s <= load_conf().sample_retention_s:
        return datetime.fromtimestamp(epoch_s, UTC)
    return None


def prune_telemetry(*, now: datetime) -> int:
    """Delete readings and cycle records older than the retention; returns how many went.

    Readings of devices are rolled up to hours first, whole hours only: of an hour that is partly
    older the raw rows stay until all of it is. How long hours stay: `kept.pruning`.
    """
    conf = load_conf()
    before = now - timedelta(seconds=conf.sample_retention_s)
    hour = before.replace(minute=0, second=0, microsecond=0)
    devices = _roll_up(hour)
    hosts, _ = HostSample.objects.filter(at__lt=before).delete()
    cycles, _ = CycleRecord.objects.filter(at__lt=before).delete()
    return devices + hosts + cycles


@transaction.atomic
def _roll_up(before: datetime) -> int:
    """Readings of the hours before to one row for each hour, device and attempt; how many went."""
    forget_hours(int(before.timestamp()))
    old = DeviceSample.objects.filter(at__lt=before)
    hours = (
        old.annotate(hour=TruncHour("at", tzinfo=UTC))
        .values("device_id", "attempt_id", "hour")
        .annotate(
            count=Count("pk", filter=KNOWN_USE),
            gpu_percent=Coalesce(Avg("gpu_percent", filter=KNOWN_USE), UNKNOWN_USE),
            memory_used_mib=Max("memory_used_mib"),
            power_watts=Avg("power_watts"),
            temperature_c=Max("temperature_c"),
            **{name: Cast(Round(Avg(name)), models.IntegerField()) for name in _SLOWED},
        )
        .order_by()
    )
    idle = _idle_by_hour(old)
    rows = []
    for hour in hours:
        count, minutes = idle.get((hour["device_id"], hour["attempt_id"], hour["hour"]), (0, 0))
        rows.append(DeviceHour(**hour, idle=count, idle_minutes=minutes))
    DeviceHour.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1000)
    gone, _ = old.delete()
    return gone


def _idle_by_hour(
    samples: QuerySet[DeviceSample],
) -> dict[tuple[int, int | None, datetime], tuple[int, int]]:
    """By device, attempt and hour: how many readings lie in spans of little use, and which minutes
    those are, as bits."""
    conf = load_conf()
    spans = idle_spans(samples, conf).filter(idle_count__gt=0)
    found: dict[tuple[int, int | None, datetime], tuple[int, int]] = {}
    for device, attempt, span_s, idle in spans.values_list(
        "device_id", "attempt_id", "span_s", "idle_count"
    ):
        into = span_s % 3600
        key = (device, attempt, datetime.fromtimestamp(span_s - into, UTC))
        count, minutes = found.get(key, (0, 0))
        for minute in range(into // 60, min(60, -(-(into + conf.idle_span_s) // 60))):
            minutes |= 1 << minute
        found[key] = (count + idle, minutes)
    return found
