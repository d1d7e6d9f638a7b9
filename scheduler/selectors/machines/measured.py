"""What the GPUs of jobs did on average, for a comparison of several jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Avg, Max

from accounts.models import User
from scheduler.models import DeviceSample, Job
from scheduler.models.telemetry import KNOWN_USE
from scheduler.selectors.telemetry import may_read_metrics


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over all readings that are still kept: percent (None: not told), MiB (the most),
    watts."""

    use: float | None
    most_memory_mib: float
    power_watts: float


def measured_means(viewer: User, jobs: Iterable[Job]) -> dict[int, Measured]:
    """By job, for those whose readings the viewer may see; one statement for all of them."""
    allowed = [job.pk for job in jobs if may_read_metrics(viewer, job)]
    if not allowed:
        return {}
    rows = (
        DeviceSample.objects.filter(attempt__job__in=allowed)
        .order_by()
        .values_list("attempt__job")
        .annotate(use=Avg("gpu_percent", filter=KNOWN_USE))
        .annotate(Max("memory_used_mib"), Avg("power_watts"))
    )
    return {job: Measured(use, float(most), watts) for job, use, most, watts in rows}
