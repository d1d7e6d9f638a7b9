"""Nodes, devices, and what holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler.engine.snapshot import (
    ISOLATIONS,
    NODE_STATES,
    NONE,
    Devices,
    Held,
    Ints,
    Nodes,
    flags,
    floats,
    ints,
)
from scheduler.loop.loading.accounts import Owners
from scheduler.loop.loading.columns import Columns, ModelRows, columns_of
from scheduler.loop.loading.labels import places_of
from scheduler.loop.loading.parts import Parts
from scheduler.models import Allocation, Device, Node, Placement
from scheduler.models.attempts import NODE_FAULTS
from scheduler.states import LIVE_ATTEMPT_STATES, DeviceHealth, NodeState

_OUT = (NodeState.DRAINING, NodeState.DRAINED)
_PART_FIELDS = ("parent_id", "parent__model", "milli", "isolation")
# A whole card is kept apart by being one.
_ISOLATION_ROW = {"": len(ISOLATIONS) - 1, "timeslice": 0, "mps": 1, "mig": 2}
_DEVICE_COLUMNS = (
    "node",
    "index",
    "pk",
    "model",
    "link_group",
    "is_healthy",
    "holder",
    "memory_mib",
    "card",
    "isolation",
)
_SIZES = ("cpus", "memory_mib", "scratch_mib")
_STATE_ROW = {state: row for row, state in enumerate(NODE_STATES)}


@dataclass(slots=True)
class Share:
    """One placement that holds devices, or CPUs and memory alone."""

    job: int
    node: int
    cpus: int
    memory_mib: int
    until_s: float
    scratch_mib: int
    project: int
    owner: int
    shares_cards: bool
    is_exclusive: bool
    booking: int | None


_JOB = "attempt__job__"
_SHARE_FIELDS = (
    "attempt__job_id",
    "node_id",
    "cpus",
    "memory_mib",
    "attempt__started_at",
    "attempt__assigned_at",
    f"{_JOB}time_limit_s",
    f"{_JOB}scratch_mib",
    f"{_JOB}project_id",
    f"{_JOB}owner_id",
    f"{_JOB}share_cards",
    f"{_JOB}exclusive",
    f"{_JOB}booked_in_id",
)


def _share(row: Sequence[Any], node_row: dict[int, int]) -> Share:
    """Of the values of `_SHARE_FIELDS`."""
    job, node, cpus, memory_mib, started, assigned, limit_s, *limits = row
    until_s = (started or assigned).timestamp() + limit_s
    return Share(job, node_row[node], cpus, memory_mib, until_s, *limits)


def load_shares(node_row: dict[int, int]) -> tuple[list[Share], dict[int, int]]:
    """What holds a part of a node now, and the row of the holder by device id."""
    shares: list[Share] = []
    row_of: dict[int, int] = {}
    holder: dict[int, int] = {}
    held = Allocation.objects.filter(released_at__isnull=True).values_list(
        "device_id", "placement_id", *(f"placement__{name}" for name in _SHARE_FIELDS)
    )
    for device, placement, *fields in held:
        if fields[1] not in node_row:
            continue
        if placement not in row_of:
            row_of[placement] = len(shares)
            shares.append(_share(fields, node_row))
        holder[device] = row_of[placement]
    shares += _shares_without_devices(node_row)
    return shares, holder


def _shares_without_devices(node_row: dict[int, int]) -> list[Share]:
    """Running ranks of jobs that asked for no GPU: they hold CPUs and memory all the same."""
    held = Placement.objects.filter(
        ended_at__isnull=True,
        attempt__state__in=LIVE_ATTEMPT_STATES,
        attempt__job__gpus_per_node=0,
    ).values_list(*_SHARE_FIELDS)
    return [_share(row, node_row) for row in held if row[1] in node_row]


def load_devices(
    node_row: dict[int, int], holder: dict[int, int], models: ModelRows, parts: Parts
) -> Devices:
    """Present devices, sorted by node row and index; a card in parts counts by its parts."""
    devices = columns_of(sorted(_device_rows(node_row, holder, models, parts)), _DEVICE_COLUMNS)
    return Devices.of(
        id=ints(devices["pk"]),
        node=ints(devices["node"]),
        model=ints(devices["model"]),
        link_group=ints(devices["link_group"]),
        is_healthy=flags(devices["is_healthy"]),
        holder=ints(devices["holder"]),
        # A card that is shared is in parts, each a device of its own.
        is_shareable=flags([False] * len(devices["pk"])),
        memory_mib=ints(devices["memory_mib"]),
        isolation=ints(devices["isolation"]),
        card=ints(devices["card"]),
    )


def _device_rows(
    node_row: dict[int, int], holder: dict[int, int], models: ModelRows, parts: Parts
) -> Iterator[tuple[Any, ...]]:
    """Of each device the values of `_DEVICE_COLUMNS`."""
    groups: dict[tuple[int, str], int] = {}
    cards: dict[int, int] = {}
    present = Device.objects.filter(is_present=True, in_service=True).values_list(
        "pk", "node_id", "index", "model", "link_group", "health", "memory_mib", *_PART_FIELDS
    )
    for pk, node, index, model, link_group, health, memory_mib, *part in present:
        parent, card_model, milli, apart = part
        if node in node_row:
            parts.add(model, card_model, milli)
            row = node_row[node]
            group = groups.setdefault((row, link_group), len(groups))
            healthy = health == DeviceHealth.HEALTHY
            card = NONE if parent is None else cards.setdefault(parent, len(cards))
            held = holder.get(pk, NONE)
            isolation = _ISOLATION_ROW[apart]
            yield (
                row,
                index,
                pk,
                models.of(model),
                group,
                healthy,
                held,
                memory_mib,
                card,
                isolation,
            )


def as_held(
    shares: Sequence[Share],
    team_of: Mapping[int, int],
    owners: Owners,
    booking_row: Mapping[int, int],
) -> Held:
    """The placements of `load_shares` as the engine sees them; `team_of` by project."""
    return Held.of(
        job=ints([share.job for share in shares]),
        node=ints([share.node for share in shares]),
        cpus=ints([share.cpus for share in shares]),
        memory_mib=ints([share.memory_mib for share in shares]),
        until_s=floats([share.until_s for share in shares]),
        scratch_mib=ints([share.scratch_mib for share in shares]),
        tenant=ints([team_of.get(share.project, NONE) for share in shares]),
        shares_cards=flags([share.shares_cards for share in shares]),
        is_exclusive=flags([share.is_exclusive for share in shares]),
        account=owners.of(share.project for share in shares),
        sharer=owners.sharers(
            (share.project for share in shares), (share.owner for share in shares)
        ),
        booking=ints([booking_row.get(share.booking or 0, NONE) for share in shares]),
    )


_NODE_FIELDS = (
    "pk",
    "name",
    "pool_id",
    "state",
    "cpus",
    "memory_mib",
    "scratch_mib",
    "block",
    "rack",
    "labels",
)


def load_nodes() -> Columns:
    """Every node that is not retired, by field."""
    present = Node.objects.exclude(state=NodeState.RETIRED).order_by("pool_id", "name")
    return columns_of(present.values_list(*_NODE_FIELDS), _NODE_FIELDS)


def load_failures(since: datetime) -> Counter[int]:
    """By node (its id), how often something of its own ended a rank since then."""
    failed = Placement.objects.filter(end_reason__in=NODE_FAULTS, ended_at__gte=since)
    return Counter(failed.values_list("node_id", flat=True))


def as_nodes(
    nodes: Columns,
    pool_row: dict[int, int],
    shares: Iterable[Share],
    failures: Mapping[int, int],
    in_maintenance: Collection[int] = (),
) -> Nodes:
    """The nodes of `load_nodes` as the engine sees them, less what the shares hold of them."""
    used: dict[str, Counter[int]] = {name: Counter() for name in _SIZES}
    for share in shares:
        for name, counter in used.items():
            counter[share.node] += getattr(share, name)
    racks, blocks = places_of(nodes)

    def free(name: str) -> Ints:
        # A node that came back smaller holds more than it has until its jobs end.
        return ints([max(0, total - used[name][row]) for row, total in enumerate(nodes[name])])

    return Nodes.of(
        id=ints(nodes["pk"]),
        pool=ints([pool_row[pk] for pk in nodes["pool_id"]]),
        state=ints([_STATE_ROW[NodeState(state)] for state in nodes["state"]]),
        takes_work=flags(
            [
                state == NodeState.READY or (pk in in_maintenance and state in _OUT)
                for pk, state in zip(nodes["pk"], nodes["state"], strict=True)
            ]
        ),
        cpus_total=ints(nodes["cpus"]),
        cpus_free=free("cpus"),
        memory_total_mib=ints(nodes["memory_mib"]),
        memory_free_mib=free("memory_mib"),
        scratch_total_mib=ints(nodes["scratch_mib"]),
        scratch_free_mib=free("scratch_mib"),
        rack=ints(racks),
        block=ints(blocks),
        failures=ints([failures.get(pk, 0) for pk in nodes["pk"]]),
    )
