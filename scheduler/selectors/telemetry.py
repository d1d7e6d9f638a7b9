"""Readings of a job's or a node's devices, thinned for a chart."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, cast

from django.db import connections
from django.db.models import QuerySet, Value

from accounts.errors import Forbidden
from accounts.models import User
from accounts.permissions import can
from scheduler.models import Attempt, DeviceHour, DeviceSample, Job, Node
from scheduler.selectors.jobs import check_visible

MAX_POINTS = 1000
MAX_ROWS = 200_000


@dataclass(slots=True)
class DeviceSeries:
    """One device over time; the lists have equal length, oldest first."""

    uuid: str
    index: int
    node: str
    rank: int | None
    model: str
    memory_mib: int
    is_simulated: bool
    at: list[datetime] = field(default_factory=list)
    gpu_percent: list[float] = field(default_factory=list)
    memory_used_mib: list[int] = field(default_factory=list)
    power_watts: list[float] = field(default_factory=list)
    temperature_c: list[float] = field(default_factory=list)


def may_read_metrics(viewer: User, job: Job) -> bool:
    """Whether readings of its GPUs may be shown; finance and auditors may not see them."""
    return can(viewer, "read_metrics", job.project)


def job_series(
    viewer: User, job: Job, *, attempt_number: int | None = None, since: datetime | None = None
) -> list[DeviceSeries]:
    """The devices of one attempt, the latest by default.

    Raises NotFound for a foreign job, Forbidden for a role that sees jobs but not what they do.
    """
    check_visible(viewer, job)
    _check_measures(viewer, job)
    attempts = job.attempts.order_by("-number").defer("code_patch")
    if attempt_number is not None:
        attempts = attempts.filter(number=attempt_number)
    attempt = attempts.first()
    return series_of(viewer, job, attempt, since=since) if attempt is not None else []


def series_of(
    viewer: User, job: Job, attempt: Attempt, *, since: datetime | None = None
) -> list[DeviceSeries]:
    """The same of an attempt of the job that was found before."""
    _check_measures(viewer, job)
    ranks = dict(attempt.placements.values_list("allocations__device_id", "rank").order_by("rank"))
    return _of_attempt(attempt, ranks, since)


def attempt_series(viewer: User, job: Job, attempt: Attempt) -> list[DeviceSeries]:
    """The same of an attempt that is there, with its placements and their allocations."""
    _check_measures(viewer, job)
    placements = attempt.placements.all()
    ranks = {held.device_id: one.rank for one in placements for held in one.allocations.all()}
    return _of_attempt(attempt, ranks, None)


def _check_measures(viewer: User, job: Job) -> None:
    if not may_read_metrics(viewer, job):
        raise Forbidden("Your role may see this job, but not what its GPUs do.")


def _of_attempt(
    attempt: Attempt, ranks: dict[int, int], since: datetime | None
) -> list[DeviceSeries]:
    raw = DeviceSample.objects.filter(attempt=attempt)
    series = _series(raw, DeviceHour.objects.filter(attempt=attempt), since, ranks)
    return sorted(series, key=lambda one: (one.rank or 0, one.index))


def node_series(viewer: User, node: Node, *, since: datetime | None = None) -> list[DeviceSeries]:
    """All devices of a node."""
    if not viewer.is_authenticated:
        return []
    raw = DeviceSample.objects.filter(device__node=node)
    series = _series(raw, DeviceHour.objects.none(), since, {})
    return sorted(series, key=lambda one: one.index)


def _series(
    samples: QuerySet[DeviceSample],
    hours: QuerySet[DeviceHour],
    since: datetime | None,
    ranks: dict[int, int],
) -> list[DeviceSeries]:
    """Old readings as the hours they were rolled up to, then the raw ones."""
    if since is not None:
        samples, hours = samples.filter(at__gt=since), hours.filter(hour__gt=since)
    columns = (
        "gpu_percent", "memory_used_mib", "power_watts", "temperature_c",
        "device__uuid", "device__index", "device__node__name", "device__model",
        "device__memory_mib", "device__is_simulated",
    )  # fmt: skip
    recent = _latest(samples, "at").values_list(Value(1), "device_id", "at", *columns)
    old = _latest(hours, "hour").values_list(Value(0), "device_id", "hour", *columns)
    rows = sorted(recent.union(old, all=True), key=itemgetter(0, 2))
    by_device: dict[int, DeviceSeries] = {}
    for _, device_id, at, gpu, memory, power, temperature, *about in rows:
        one = by_device.get(device_id)
        if one is None:
            uuid, index, node, *rest = cast("list[Any]", about)
            one = by_device[device_id] = DeviceSeries(
                uuid, index, node, ranks.get(device_id), *rest
            )
        one.at.append(at)
        one.gpu_percent.append(gpu)
        one.memory_used_mib.append(memory)
        one.power_watts.append(power)
        one.temperature_c.append(temperature)
    for one in by_device.values():
        _thin(one)
    return list(by_device.values())


def _latest(readings: QuerySet[Any], at: str) -> QuerySet[Any]:
    """At most MAX_ROWS, in a form that may stand in a union."""
    latest = readings.order_by(f"-{at}")[:MAX_ROWS]
    if connections[readings.db].features.supports_slicing_ordering_in_compound:
        return latest
    return readings.model._base_manager.filter(pk__in=latest.values("pk"))


def _thin(one: DeviceSeries) -> None:
    """Keep every n-th point, always the last one, so that a chart stays light."""
    step = -(-len(one.at) // MAX_POINTS)
    if step <= 1:
        return
    keep = [i for i in range(len(one.at)) if i % step == 0 or i == len(one.at) - 1]
    for name in ("at", "gpu_percent", "memory_used_mib", "power_watts", "temperature_c"):
        values = getattr(one, name)
        setattr(one, name, [values[i] for i in keep])
