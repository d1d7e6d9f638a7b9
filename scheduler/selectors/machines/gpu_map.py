"""Every GPU of the cluster at one glance: who holds it, how busy and how healthy it is.

The number of statements does not depend on the number of GPUs. Whose job holds a GPU is told to
those who may see the job; that it is held, and how busy it is, to everybody who is signed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Avg

from accounts.models import User
from accounts.permissions import can
from accounts.selectors import visible_projects
from scheduler.models import Allocation, Booking, Device, DeviceSample, Node, Pool
from scheduler.selectors.cluster import visible_nodes
from scheduler.states import DeviceHealth, NodeState

READING = timedelta(minutes=1)
_OUT = (NodeState.SILENT, NodeState.LOST, NodeState.QUARANTINED)
_DRAINED = (NodeState.DRAINING, NodeState.DRAINED)


@dataclass(frozen=True, slots=True)
class Holding:
    """A job on a GPU; `team` and `project` as slugs, `job` its number and `name` its name."""

    job: int
    name: str
    team: str
    project: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Means of the last minute: percent, MiB, watts, degrees Celsius."""

    use: float
    memory_mib: float
    power_watts: float
    temperature_c: float


@dataclass(frozen=True, slots=True)
class MapGpu:
    """One GPU, or one slot of it: `3`, `3.1`. `held`: by somebody; `holding`: by what, only if the
    viewer may see the job."""

    index: str
    model: str
    memory_mib: int
    health: str
    held: bool
    holding: Holding | None
    reading: Reading | None

    @property
    def is_out(self) -> bool:
        """Whether the GPU itself takes no work."""
        return self.health not in (DeviceHealth.HEALTHY, DeviceHealth.SUSPECT)


@dataclass(slots=True)
class MapNode:
    """A node and its GPUs by index."""

    node: Node
    is_booked: bool = False
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
    """All nodes by block, rack and name, in five statements and what the viewer's rights take."""
    nodes = visible_nodes(viewer)
    nodes = nodes.filter(pool=pool) if pool is not None else nodes
    found = {node.pk: MapNode(node) for node in nodes}
    if not found:
        return []
    for booked in _booked_nodes(now):
        if booked in found:
            found[booked].is_booked = True
    holdings, readings = _holdings(viewer), _readings(now)
    devices = Device.objects.filter(is_present=True, in_service=True)
    fields = ("pk", "node", "index", "slot", "model", "memory_mib", "health")
    rows = devices.order_by("node", "index", "slot", "pk").values_list(*fields)
    for pk, node_id, index, slot, model, memory, health in rows:
        if node_id in found:
            label = str(index) if slot is None else f"{index}.{slot + 1}"
            held, seen = pk in holdings, readings.get(pk)
            gpu = MapGpu(label, model, memory, health, held, holdings.get(pk), seen)
            found[node_id].gpus.append(gpu)
    return sorted(
        found.values(), key=lambda each: (each.node.block, each.node.rack, each.node.name)
    )


def _booked_nodes(now: datetime) -> set[int]:
    active = Booking.objects.filter(from_at__lte=now, until_at__gt=now, closed_as="")
    return {node for nodes in active.values_list("node_ids", flat=True) for node in nodes}


def _holdings(viewer: User) -> dict[int, Holding | None]:
    """By device that is held: by what, or None if that is not for the viewer."""
    sees_all = can(viewer, "see_jobs", None)
    own = set() if sees_all else set(visible_projects(viewer).values_list("pk", flat=True))
    job = "placement__attempt__job"
    rows = Allocation.objects.filter(released_at__isnull=True).values_list(
        "device", f"{job}__project", job, f"{job}__name",
        f"{job}__project__team__slug", f"{job}__project__slug",
    )  # fmt: skip
    found: dict[int, Holding | None] = {}
    for device, project, *about in rows:
        seen = Holding(*about) if sees_all or project in own else None
        found[device] = found.get(device) or seen
    return found


def _readings(now: datetime) -> dict[int, Reading]:
    means = (
        DeviceSample.objects.filter(at__gt=now - READING)
        .order_by()
        .values_list("device")
        .annotate(
            Avg("gpu_percent"), Avg("memory_used_mib"), Avg("power_watts"), Avg("temperature_c")
        )
    )
    return {device: Reading(*map(float, values)) for device, *values in means}
