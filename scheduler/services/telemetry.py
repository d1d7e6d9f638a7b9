"""Readings in, old readings out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import Attempt, CycleRecord, Device, DeviceSample, HostSample, Node
from scheduler.wire.messages import SyncRequest

MAX_SAMPLES = 5000


def ingest_samples(*, node: Node, request: SyncRequest, now: datetime) -> int:
    """Store the readings that came with a sync; repeated ones are the same row.

    Readings of devices the node does not have, from the future or older than the retention are
    dropped: they can only be a wrong clock. Returns how many were kept.
    """
    rows = _device_rows(node, request, now) if request.samples else []
    if rows:
        DeviceSample.objects.bulk_create(rows, ignore_conflicts=True)
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


def _device_rows(node: Node, request: SyncRequest, now: datetime) -> list[DeviceSample]:
    ids = dict(Device.objects.filter(node=node).values_list("uuid", "pk"))
    fences = {sample.fence for sample in request.samples if sample.fence is not None}
    mine = set(
        Attempt.objects.filter(pk__in=fences, placements__node=node).values_list("pk", flat=True)
    )
    rows = []
    for sample in request.samples[:MAX_SAMPLES]:
        at = _moment(sample.at, now)
        if sample.uuid not in ids or at is None:
            continue
        rows.append(
            DeviceSample(
                device_id=ids[sample.uuid],
                attempt_id=sample.fence if sample.fence in mine else None,
                at=at,
                gpu_percent=min(max(sample.gpu_percent, 0.0), 100.0),
                memory_used_mib=max(0, sample.memory_used_mib),
                power_watts=max(0.0, sample.power_watts),
                temperature_c=sample.temperature_c,
            )
        )
    return rows


def _moment(epoch_s: float, now: datetime) -> datetime | None:
    age_s = now.timestamp() - epoch_s
    if -60 <= age_s <= load_conf().sample_retention_s:
        return datetime.fromtimestamp(epoch_s, UTC)
    return None


def prune_telemetry(*, now: datetime) -> int:
    """Delete raw readings and cycle records older than the retention; returns how many went."""
    before = now - timedelta(seconds=load_conf().sample_retention_s)
    devices, _ = DeviceSample.objects.filter(at__lt=before).delete()
    hosts, _ = HostSample.objects.filter(at__lt=before).delete()
    cycles, _ = CycleRecord.objects.filter(at__lt=before).delete()
    return devices + hosts + cycles
