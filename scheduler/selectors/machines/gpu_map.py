"""Every GPU of the cluster at one glance: who holds it, how busy and how healthy it is.

The number of statements does not depend on the number of GPUs. Whose job holds a GPU is told to
those who may see the job; that it is held, and how busy it is, to everybody who is signed in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import (
    Avg,
    Case,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    TextField,
    Value,
    When,
)
from django.db.models.functions import Cast

from accounts.models import User
from accounts.models.rows import as_rows, rows_in
from accounts.permissions import can
from accounts.selectors import visible_projects
from accounts.statements import RealNumber, WholeNumber
from scheduler.models import Allocation, Booking, Device, DeviceSample, Node, Placement, Pool
from scheduler.models.telemetry import KNOWN_USE
from scheduler.selectors.calendar.reserved import IN_ORDER, owners_of
from scheduler.selectors.cluster import visible_nodes
from scheduler.states import DeviceHealth, NodeState

# Nodes read every 2 s where jobs run and every 10 s where none do.
READING = timedelta(seconds=20)
# By hundreds, as Django would, asking for the next rows takes as long as some of them.
_CHUNK = 20_000
_OUT = (NodeState.SILENT, NodeState.LOST, NodeState.QUARANTINED)
_TAKE_WORK = frozenset({DeviceHealth.HEALTHY, DeviceHealth.SUSPECT})
_DRAINED = (NodeState.DRAINING, NodeState.DRAINED)
_READ, _OWN, _HELD, _BOOKED = "read", "own", "held", "booked"
_NUMBER, _REAL = WholeNumber(), RealNumber()
_NOT_BOOKED = Value(None, output_field=_NUMBER)
_NO_DEVICES = Value("", output_field=TextField())
_MEANS = ("gpu_percent", "memory_used_mib", "power_watts", "temperature_c")


# Nobody changes these three; frozen they would take three times as long to make, thousands a page.
@dataclass(slots=True)
class Holding:
    """A job on a GPU; `team` and `project` as slugs, `job` its number and `name` its name."""

    job: int
    name: str
    team: str
    project: str


@dataclass(slots=True)
class Reading:
    """Means of the last 20 seconds: percent (None: not told), MiB, watts, degrees Celsius."""

    use: float | None
    memory_mib: float
    power_watts: float
    temperature_c: float


@dataclass(slots=True)
class MapGpu:
    """One GPU, or one slot of it: `3`, `3.1`. `held`: by somebody; `holding`: by what, only if the
    viewer may see the job. `reason`: of its health. `is_booked`: for a booking that is active."""

    index: str
    model: str
    memory_mib: int
    health: str
    held: bool
    holding: Holding | None
    reading: Reading | None
    reason: str = ""
    is_booked: bool = False

    @property
    def is_out(self) -> bool:
        """Whether the GPU itself takes no work."""
        return self.health not in _TAKE_WORK


@dataclass(slots=True)
class MapNode:
    """A node and its GPUs by index."""

    node: Node
    gpus: list[MapGpu] = field(default_factory=list)

    @property
    def is_out(self) -> bool:
        return self.node.state in _OUT

    @property
    def is_drained(self) -> bool:
        return self.node.state in _DRAINED

    @property
    def held(self) -> int:
        return sum(gpu.held for gpu in self.gpus)


def gpu_map(viewer: User, *, now: datetime, pool: Pool | None = None) -> list[MapNode]:
    """All nodes by block, rack and name, in three statements."""
    nodes = visible_nodes(viewer).only(
        "name", "state", "state_reason", "block", "rack", "pool__name"
    )
    nodes = nodes.filter(pool=pool) if pool is not None else nodes
    found = {node.pk: MapNode(node) for node in nodes}
    if not found:
        return []
    marks = _marks(viewer, now)
    holdings, readings = marks.holdings, marks.readings
    booked = {node for booking in marks.bookings for node in booking.node_ids}
    devices = Device.objects.filter(is_present=True, in_service=True)
    fields = ("pk", "node", "index", "slot", "model", "memory_mib", "health",
              "health_reason")  # fmt: skip
    rows = devices.order_by(*IN_ORDER).values_list(*fields)
    by_pk: dict[int, MapGpu] = {}
    here: dict[int, list[tuple[int, str]]] = {}
    for pk, node_id, index, slot, model, memory, health, reason in rows.iterator(_CHUNK):
        if node_id in found:
            label = str(index) if slot is None else f"{index}.{slot + 1}"
            held, seen = pk in holdings, readings.get(pk)
            gpu = MapGpu(label, model, memory, health, held, holdings.get(pk), seen, reason)
            found[node_id].gpus.append(gpu)
            if node_id in booked:
                by_pk[pk] = gpu
                here.setdefault(node_id, []).append((pk, model))
    for pk in owners_of(marks.bookings, here, marks.inside):
        by_pk[pk].is_booked = True
    return sorted(
        found.values(), key=lambda each: (each.node.block, each.node.rack, each.node.name)
    )


@dataclass(slots=True)
class _Marks:
    """By device that is held: by what, or None if that is not for the viewer, and in which booking
    (id); by device that was read: its means; the active bookings as far as they say what they take.
    """

    holdings: dict[int, Holding | None] = field(default_factory=dict)
    readings: dict[int, Reading] = field(default_factory=dict)
    inside: dict[int, int | None] = field(default_factory=dict)
    bookings: list[Booking] = field(default_factory=list)


def _marks(viewer: User, now: datetime) -> _Marks:
    """What is to be said of devices and nodes, in one statement."""
    found = _Marks()
    rows = _read(now).union(_held(viewer), _booked(now), all=True)
    for what, number, job, name, team, project, booked_in, its, *means in rows.iterator(_CHUNK):
        if what == _READ:
            use, *others = means
            found.readings[number] = Reading(use, *map(float, others))
        elif what == _BOOKED:
            nodes = json.loads(name)
            found.bookings.append(
                Booking(pk=number, gpus_per_node=job, gpu_model=team, node_ids=nodes)
            )
        else:
            seen = Holding(job, name, team, project) if what == _OWN else None
            for (device,) in rows_in(its):
                found.inside[device] = booked_in
                found.holdings[device] = found.holdings.get(device) or seen
    return found


def _held(viewer: User) -> QuerySet[Placement, Any]:
    """By placement, with the devices that it holds. Equals a row for each device, for which its job
    would be looked up as often."""
    held = Allocation.objects.filter(released_at__isnull=True).order_by()
    rows = Placement.objects.filter(pk__in=held.values("placement")).order_by()
    its = as_rows(held.filter(placement=OuterRef("pk")).annotate(its_=F("device_id")), "its_")
    job = "attempt__job"
    may_see = Q(**{f"{job}__project__in": visible_projects(viewer).order_by().values("pk")})
    sees_all = can(viewer, "see_jobs", None)
    whose = Value(_OWN) if sees_all else Case(When(may_see, then=Value(_OWN)), default=Value(_HELD))
    return rows.values_list(
        whose, "pk", job, f"{job}__name", f"{job}__project__team__slug",
        f"{job}__project__slug", f"{job}__booked_in", its, *(Value(0.0) for _ in _MEANS),
    )  # fmt: skip


def _booked(now: datetime) -> QuerySet[Booking, Any]:
    active = Booking.objects.filter(from_at__lte=now, until_at__gt=now, closed_as="").order_by()
    return active.values_list(
        Value(_BOOKED), "pk", "gpus_per_node", Cast("node_ids", TextField()), "gpu_model",
        Value(""), _NOT_BOOKED, _NO_DEVICES, *(Value(0.0) for _ in _MEANS),
    )  # fmt: skip


def _read(now: datetime) -> QuerySet[DeviceSample, Any]:
    """Means by device. Equals grouping by the column itself, for which SQLite goes through every
    reading that is kept, in the order of its index; a sum is in no index, so it looks for the
    moments instead.
    """
    rows = DeviceSample.objects.filter(at__gt=now - READING).order_by()
    device = ExpressionWrapper(F("device_id") + Value(0), _NUMBER)
    nothing = (Value(0, _NUMBER), Value(""), Value(""), Value(""), _NOT_BOOKED, _NO_DEVICES)
    by_device = rows.values_list(Value(_READ), device, *nothing)
    use, *others = _MEANS
    by_device = by_device.annotate(use=Avg(use, filter=KNOWN_USE, output_field=_REAL))
    return by_device.annotate(*(Avg(name, output_field=_REAL) for name in others))
