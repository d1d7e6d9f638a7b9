"""Readings of a job's or a node's devices: of a long time so many as a chart shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, cast

from django.db.models import QuerySet, Value
from django.utils import timezone

from accounts.errors import Forbidden, NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.models import Attempt, Device, DeviceHour, DeviceSample, Job, Node
from scheduler.models.telemetry import UNKNOWN_USE
from scheduler.selectors.jobs import check_visible
from scheduler.selectors.kept.picked import Picked, moments_between

# Of a device at most so many points: for programs, in a chart of its own, in one among others.
MAX_POINTS, CHART_POINTS, GLANCE_POINTS = 1000, 240, 120
# So many devices have them all; of many more each has at least so many.
FULL, _FEWEST = 8, 12
MAX_ROWS = 20_000
# Of a shorter span than so long for each point all is read: nodes read every 2 s.
_READ_EVERY = timedelta(seconds=2)
_LATELY, _HOUR = timedelta(minutes=1), timedelta(hours=1)


@dataclass(slots=True)
class DeviceSeries:
    """One device over time; the lists have equal length, oldest first. None: not told.

    What heat and the limit of its power slowed down is in per cent of the time.
    """

    uuid: str
    index: int
    node: str
    rank: int | None
    model: str
    memory_mib: int
    is_simulated: bool
    at: list[datetime] = field(default_factory=list)
    gpu_percent: list[float | None] = field(default_factory=list)
    memory_used_mib: list[int] = field(default_factory=list)
    power_watts: list[float] = field(default_factory=list)
    temperature_c: list[float] = field(default_factory=list)
    slowed_by_heat: list[int | None] = field(default_factory=list)
    slowed_by_power: list[int | None] = field(default_factory=list)


def may_read_metrics(viewer: User, job: Job) -> bool:
    """Whether readings of its GPUs may be shown; finance and auditors may not see them."""
    return can(viewer, "read_metrics", job.project)


def job_series(
    viewer: User,
    job: Job,
    *,
    attempt_number: int | None = None,
    since: datetime | None = None,
    now: datetime | None = None,
) -> list[DeviceSeries]:
    """The devices of one attempt, the latest by default, at most MAX_POINTS of each.

    Raises NotFound for a foreign job and for an attempt that it has not, Forbidden for a role that
    sees jobs but not what they do.
    """
    check_visible(viewer, job)
    check_measures(viewer, job)
    attempts = job.attempts.order_by("-number").defer("code_patch")
    if attempt_number is not None:
        attempts = attempts.filter(number=attempt_number)
    attempt = attempts.first()
    if attempt is None and attempt_number is not None:
        raise NotFound("This job has no such attempt.", field="attempt")
    if attempt is None:
        return []
    return series_of(viewer, job, attempt, since=since, most=MAX_POINTS, now=now)


def series_of(
    viewer: User,
    job: Job,
    attempt: Attempt,
    *,
    since: datetime | None = None,
    most: int = CHART_POINTS,
    now: datetime | None = None,
) -> list[DeviceSeries]:
    """The same of an attempt of the job that was found before."""
    check_measures(viewer, job)
    ranks = dict(attempt.placements.values_list("allocations__device_id", "rank").order_by("rank"))
    return _of_attempt(attempt, ranks, since, most, now or timezone.now())


def attempt_series(
    viewer: User,
    job: Job,
    attempt: Attempt,
    *,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    most: int = GLANCE_POINTS,
) -> list[DeviceSeries]:
    """The same of an attempt that is there, with its placements and their allocations."""
    check_measures(viewer, job)
    placements = attempt.placements.all()
    ranks = {held.device_id: one.rank for one in placements for held in one.allocations.all()}
    return _of_attempt(attempt, ranks, since, most, now, until)


def check_measures(viewer: User, job: Job) -> None:
    """Raises Forbidden for a role that sees jobs but not what they do."""
    if not may_read_metrics(viewer, job):
        raise Forbidden("Your role may see this job, but not what its GPUs do.")


def _of_attempt(
    attempt: Attempt,
    ranks: dict[int, int],
    since: datetime | None,
    most: int,
    now: datetime,
    until: datetime | None = None,
) -> list[DeviceSeries]:
    ordered = sorted(ranks, key=lambda device: (ranks[device], device))
    parts = [(_among(ordered[:FULL]), most)]
    if rest := ordered[FULL:]:
        parts.append((_among(rest), max(_FEWEST, most * FULL // len(ordered))))
    begin, end = span_of(attempt, now, since=since, until=until)
    samples = DeviceSample.objects.filter(attempt=attempt)
    hours = DeviceHour.objects.filter(attempt=attempt, hour__gt=since or begin - _HOUR)
    if until:
        samples, hours = samples.filter(at__lte=end), hours.filter(hour__lte=end)
    wish = Wish(samples, hours, begin, end, tuple(parts))
    return sorted(_series(wish, ranks), key=lambda one: (one.rank or 0, one.index))


def span_of(
    attempt: Attempt, now: datetime, *, since: datetime | None, until: datetime | None
) -> tuple[datetime, datetime]:
    """The part of an attempt's time that is asked for; of none of it an instant at its end."""
    began, ended = attempt.assigned_at - _LATELY, attempt.ended_at or now
    end = min(until, ended) if until else ended
    return min(max(since, began) if since else began, end), end


def _among(devices: Sequence[int]) -> QuerySet[Device]:
    return Device.objects.filter(pk__in=devices)


def node_series(
    viewer: User, node: Node, *, since: datetime, now: datetime | None = None
) -> list[DeviceSeries]:
    """All devices of a node."""
    if not viewer.is_authenticated:
        return []
    wish = Wish(
        DeviceSample.objects.filter(device__node=node),
        DeviceHour.objects.none(),
        since,
        now or timezone.now(),
        ((Device.objects.filter(node=node), GLANCE_POINTS),),
    )
    return sorted(_series(wish, {}), key=lambda one: one.index)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be read: after `since` up to `until`, of these devices so many points each. The
    first devices are those that are drawn."""

    samples: QuerySet[DeviceSample]
    hours: QuerySet[DeviceHour]
    since: datetime
    until: datetime
    devices: tuple[tuple[QuerySet[Device], int], ...]

    def parts(self) -> Iterator[tuple[int, str, QuerySet[Any]]]:
        """1 and `at` for raw readings, 0 and `hour` for those that were rolled up.

        A short span is read as it is. Of a long one some moments, and of what is drawn the last
        minute whole: it says what goes on now.
        """
        recent, length = self.samples.filter(at__gt=self.since), self.until - self.since
        if length <= self.devices[0][1] * _READ_EVERY:
            yield 1, "at", recent.filter(pk__in=recent.order_by("-at").values("pk")[:MAX_ROWS])
            yield 0, "hour", self.hours
            return
        drawn, _ = self.devices[0]
        yield 1, "at", recent.filter(at__gt=self.until - _LATELY, device__in=drawn.values("pk"))
        for devices, most in self.devices:
            moments = moments_between(self.since, self.until, most)
            readings = DeviceSample.objects.filter(at__gt=self.since)
            yield 1, "at", recent.filter(pk__in=Picked(readings, devices, moments))
            if not self.hours.query.is_empty():
                picked = Picked(self.hours, devices, moments, at="hour")
                yield 0, "hour", self.hours.filter(pk__in=picked)


def _series(wish: Wish, ranks: dict[int, int]) -> list[DeviceSeries]:
    """Old readings as the hours they were rolled up to, then the raw ones; in one statement."""
    columns = (
        "gpu_percent", "memory_used_mib", "power_watts", "temperature_c",
        "slowed_by_heat", "slowed_by_power",
        "device__uuid", "device__index", "device__node__name", "device__model",
        "device__memory_mib", "device__is_simulated",
    )  # fmt: skip
    parts = [
        rows.order_by().values_list(Value(kind), "device_id", at, *columns)
        for kind, at, rows in wish.parts()
    ]
    by_device: dict[int, DeviceSeries] = {}
    # Parts overlap: what was picked may be of the last minute.
    rows = sorted(set(parts[0].union(*parts[1:], all=True)), key=itemgetter(0, 2))
    for _, device_id, at, gpu, memory, power, temperature, by_heat, by_power, *about in rows:
        one = by_device.get(device_id)
        if one is None:
            uuid, index, node, *rest = cast("list[Any]", about)
            one = by_device[device_id] = DeviceSeries(
                uuid, index, node, ranks.get(device_id), *rest
            )
        one.at.append(at)
        one.gpu_percent.append(None if gpu == UNKNOWN_USE else gpu)
        one.memory_used_mib.append(memory)
        one.power_watts.append(power)
        one.temperature_c.append(temperature)
        one.slowed_by_heat.append(by_heat)
        one.slowed_by_power.append(by_power)
    return list(by_device.values())
