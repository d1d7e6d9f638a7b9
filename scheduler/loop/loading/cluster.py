"""Nodes, devices, and what holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.engine.snapshot import NODE_STATES, NONE, Devices, Held, Nodes, flags, floats, ints
from scheduler.loop.loading.columns import Columns, ModelRows, columns_of
from scheduler.models import Allocation, Device, Node, Placement
from scheduler.states import LIVE_ATTEMPT_STATES, DeviceHealth, NodeState

_STATE_ROW = {state: row for row, state in enumerate(NODE_STATES)}


@dataclass(slots=True)
class Share:
    """One placement that holds devices, or CPUs and memory alone."""

    job: int
    node: int
    cpus: int
    memory_mib: int
    until_s: float


def load_shares(node_row: dict[int, int]) -> tuple[list[Share], dict[int, int]]:
    """What holds a part of a node now, and the row of the holder by device id."""
    shares: list[Share] = []
    row_of: dict[int, int] = {}
    holder: dict[int, int] = {}
    held = Allocation.objects.filter(released_at__isnull=True).values_list(
        "device_id",
        "placement_id",
        "placement__attempt__job_id",
        "placement__node_id",
        "placement__cpus",
        "placement__memory_mib",
        "placement__attempt__started_at",
        "placement__attempt__assigned_at",
        "placement__attempt__job__time_limit_s",
    )
    for device, placement, job, node, cpus, memory_mib, started, assigned, limit_s in held:
        if node not in node_row:
            continue
        if placement not in row_of:
            row_of[placement] = len(shares)
            until_s = (started or assigned).timestamp() + limit_s
            shares.append(Share(job, node_row[node], cpus, memory_mib, until_s))
        holder[device] = row_of[placement]
    shares += _shares_without_devices(node_row)
    return shares, holder


def _shares_without_devices(node_row: dict[int, int]) -> list[Share]:
    """Running ranks of jobs that asked for no GPU: they hold CPUs and memory all the same."""
    held = Placement.objects.filter(
        ended_at__isnull=True,
        attempt__state__in=LIVE_ATTEMPT_STATES,
        attempt__job__gpus_per_node=0,
    ).values_list(
        "attempt__job_id",
        "node_id",
        "cpus",
        "memory_mib",
        "attempt__started_at",
        "attempt__assigned_at",
        "attempt__job__time_limit_s",
    )
    return [
        Share(job, node_row[node], cpus, memory_mib, (started or at).timestamp() + limit_s)
        for job, node, cpus, memory_mib, started, at, limit_s in held
        if node in node_row
    ]


def load_devices(node_row: dict[int, int], holder: dict[int, int], models: ModelRows) -> Devices:
    """Present devices, sorted by node row and index; a card cut into slots counts by its slots."""
    groups: dict[tuple[int, str], int] = {}
    rows = []
    present = Device.objects.filter(is_present=True, slots__isnull=True).values_list(
        "pk", "node_id", "index", "model", "link_group", "health"
    )
    for pk, node, index, model, link_group, health in present:
        if node in node_row:
            row = node_row[node]
            group = groups.setdefault((row, link_group), len(groups))
            healthy = health == DeviceHealth.HEALTHY
            rows.append((row, index, pk, models.of(model), group, healthy, holder.get(pk, NONE)))
    names = ("node", "index", "pk", "model", "link_group", "is_healthy", "holder")
    devices = columns_of(sorted(rows), names)
    return Devices.of(
        id=ints(devices["pk"]),
        node=ints(devices["node"]),
        model=ints(devices["model"]),
        link_group=ints(devices["link_group"]),
        is_healthy=flags(devices["is_healthy"]),
        holder=ints(devices["holder"]),
        # A card that is shared is cut into slots, each a device of its own.
        is_shareable=flags([False] * len(rows)),
    )


def as_held(shares: Sequence[Share]) -> Held:
    """The placements of `load_shares` as the engine sees them."""
    return Held.of(
        job=ints([share.job for share in shares]),
        node=ints([share.node for share in shares]),
        cpus=ints([share.cpus for share in shares]),
        memory_mib=ints([share.memory_mib for share in shares]),
        until_s=floats([share.until_s for share in shares]),
    )


_NODE_FIELDS = ("pk", "pool_id", "state", "cpus", "memory_mib")


def load_nodes() -> Columns:
    """Every node that is not retired, by field."""
    present = Node.objects.exclude(state=NodeState.RETIRED).order_by("pool_id", "name")
    return columns_of(present.values_list(*_NODE_FIELDS), _NODE_FIELDS)


def as_nodes(nodes: Columns, pool_row: dict[int, int], shares: Iterable[Share]) -> Nodes:
    """The nodes of `load_nodes` as the engine sees them, less what the shares hold of them."""
    cpus_used: Counter[int] = Counter()
    used_mib: Counter[int] = Counter()
    for share in shares:
        cpus_used[share.node] += share.cpus
        used_mib[share.node] += share.memory_mib
    cpus, mib = nodes["cpus"], nodes["memory_mib"]
    return Nodes.of(
        id=ints(nodes["pk"]),
        pool=ints([pool_row[pk] for pk in nodes["pool_id"]]),
        state=ints([_STATE_ROW[NodeState(state)] for state in nodes["state"]]),
        takes_work=flags([state == NodeState.READY for state in nodes["state"]]),
        cpus_total=ints(cpus),
        # A node that came back smaller holds more than it has until its jobs end.
        cpus_free=ints([max(0, total - cpus_used[row]) for row, total in enumerate(cpus)]),
        memory_total_mib=ints(mib),
        memory_free_mib=ints([max(0, total - used_mib[row]) for row, total in enumerate(mib)]),
    )
