"""What the GPUs of several jobs did over their run time, for charts with a line for each job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Value

from accounts.models import User
from scheduler.models import Attempt, Device, DeviceHour, DeviceSample, Job, Placement
from scheduler.models.telemetry import UNKNOWN_USE
from scheduler.selectors.telemetry import FULL, Wish, may_read_metrics

# Of a job so many points; of its devices the first ones.
POINTS = 60
_SHORTEST = timedelta(seconds=2)
_HOUR = timedelta(hours=1)
_COLUMNS = ("gpu_percent", "memory_used_mib", "power_watts", "temperature_c")


@dataclass(slots=True)
class RunSeries:
    """Means over the devices of a job's latest attempt; `at` since it was placed, oldest first.
    None: no device told it then."""

    job: int
    step: timedelta
    devices: int = 0
    at: list[timedelta] = field(default_factory=list)
    gpu_percent: list[float | None] = field(default_factory=list)
    memory_used_mib: list[float] = field(default_factory=list)
    power_watts: list[float] = field(default_factory=list)
    temperature_c: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Run:
    job: int
    attempt: int
    began: datetime
    until: datetime
    devices: tuple[int, ...]

    @property
    def step(self) -> timedelta:
        return max((self.until - self.began) / POINTS, _SHORTEST)

    def wish(self) -> Wish:
        return Wish(
            DeviceSample.objects.filter(attempt=self.attempt, device__in=self.devices),
            DeviceHour.objects.filter(
                attempt=self.attempt, device__in=self.devices, hour__gt=self.began - _HOUR
            ),
            self.began,
            self.until,
            ((Device.objects.filter(pk__in=self.devices), POINTS),),
        )


def run_series(viewer: User, jobs: Iterable[Job], *, now: datetime) -> list[RunSeries]:
    """In the order of the jobs, those whose readings the viewer may see and that have some; two
    statements for all of them."""
    allowed = [job.pk for job in jobs if may_read_metrics(viewer, job)]
    runs = _runs(allowed, now) if allowed else {}
    if not runs:
        return []
    parts = [
        rows.order_by().values_list(Value(run.job), "device_id", at, *_COLUMNS)
        for run in runs.values()
        for _, at, rows in run.wish().parts()
    ]
    found: dict[int, list[Any]] = {}
    for job, *reading in set(parts[0].union(*parts[1:], all=True)):
        found.setdefault(job, []).append(reading)
    return [_meaned(runs[job], found[job]) for job in allowed if job in found]


def _runs(jobs: list[int], now: datetime) -> dict[int, _Run]:
    later = Attempt.objects.filter(
        job=OuterRef("attempt__job"), number__gt=OuterRef("attempt__number")
    )
    rows = Placement.objects.filter(~Exists(later), attempt__job__in=jobs)
    held: dict[tuple[Any, ...], list[int]] = {}
    for *about, device in rows.order_by("rank", "allocations__device").values_list(
        "attempt__job",
        "attempt",
        "attempt__assigned_at",
        "attempt__ended_at",
        "allocations__device",
    ):
        if device is not None:
            held.setdefault(tuple(about), []).append(device)
    return {
        job: _Run(job, attempt, began, ended or now, tuple(devices[:FULL]))
        for (job, attempt, began, ended), devices in held.items()
    }


def _meaned(run: _Run, readings: list[Any]) -> RunSeries:
    """Readings of different devices are never of one moment: those of a step are taken together."""
    series = RunSeries(run.job, run.step, devices=len(run.devices))
    steps: dict[int, list[Any]] = {}
    for reading in readings:
        steps.setdefault((reading[1] - run.began) // run.step, []).append(reading)
    for number in sorted(steps):
        rows = steps[number]
        series.at.append(
            max(sum((row[1] - run.began for row in rows), timedelta()) / len(rows), timedelta())
        )
        for place, name in enumerate(_COLUMNS, start=2):
            told = [row[place] for row in rows if row[place] != UNKNOWN_USE]
            getattr(series, name).append(sum(told) / len(told) if told else None)
    return series
