"""Database to Snapshot, in a constant number of queries and without model objects.

The queries see slightly different moments. That is safe: only the lease holder hands out
devices, everybody else only gives them back, and the commit is guarded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler.engine.snapshot import (
    NODE_STATES,
    NONE,
    WHOLE_MILLI,
    Devices,
    Held,
    Nodes,
    Snapshot,
    Waiting,
    flags,
    floats,
    ints,
)
from scheduler.models import Allocation, Device, Job, Node, Placement, Pool, Queue
from scheduler.states import END_RULES, DeviceHealth, FailureClass, JobState, NodeState

# An attempt that ended for one of these reasons avoids the node the next time.
_NODE_FAULTS = [
    reason
    for reason, rule in END_RULES.items()
    if rule.failure in (FailureClass.INFRA_GPU, FailureClass.INFRA_NODE, FailureClass.PLATFORM)
]
_STATE_ROW = {state: row for row, state in enumerate(NODE_STATES)}


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """The snapshot, and per waiting row the reason that the database shows now."""

    snapshot: Snapshot
    wait_reasons: tuple[str, ...]


@dataclass(slots=True)
class _Share:
    """One placement that holds devices."""

    job: int
    node: int
    cpus: int
    memory_mib: int
    until_s: float


def load_snapshot(now: datetime) -> Loaded:
    """Everything the engine needs to know about this moment.

    1. Pools and queues, for names and pauses.
    2. Nodes that are not retired, and their devices.
    3. Open allocations with their placements: what is held, and until when.
    4. Queued jobs, and the nodes where they failed last.
    """
    pools = list(Pool.objects.order_by("pk").values_list("pk", "name"))
    queues = list(Queue.objects.order_by("pk").values_list("pk", "name", "is_paused"))
    pool_row = {pk: row for row, (pk, _) in enumerate(pools)}
    queue_row = {pk: row for row, (pk, _, _) in enumerate(queues)}
    node_rows = list(
        Node.objects.exclude(state=NodeState.RETIRED)
        .order_by("pool_id", "name")
        .values_list("pk", "pool_id", "state", "cpus", "memory_mib")
    )
    node_row = {pk: row for row, (pk, *_) in enumerate(node_rows)}
    shares, holder = _load_shares(node_row)
    job_rows = _load_jobs()
    models = _ModelRows()
    devices = _load_devices(node_row, holder, models)
    waiting = _waiting(job_rows, pool_row, queue_row, models, _load_avoided(node_row))
    snapshot = Snapshot(
        now_s=now.timestamp(),
        pools=tuple(name for _, name in pools),
        queues=tuple(name for _, name, _ in queues),
        queue_is_paused=flags([is_paused for _, _, is_paused in queues]),
        models=models.names(),
        nodes=_nodes(node_rows, pool_row, shares),
        devices=devices,
        held=Held(
            job=ints([share.job for share in shares]),
            node=ints([share.node for share in shares]),
            cpus=ints([share.cpus for share in shares]),
            memory_mib=ints([share.memory_mib for share in shares]),
            until_s=floats([share.until_s for share in shares]),
        ),
        waiting=waiting,
    )
    return Loaded(snapshot, tuple(row[-1] for row in job_rows))


class _ModelRows:
    """Numbers for device models, in the order they are met."""

    def __init__(self) -> None:
        self._row: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self._row.setdefault(name, len(self._row))

    def wanted(self, name: str) -> int:
        """The row of the model a job asks for; an empty name takes any."""
        return self.of(name) if name else NONE

    def names(self) -> tuple[str, ...]:
        return tuple(self._row)


def _load_shares(node_row: dict[int, int]) -> tuple[list[_Share], dict[int, int]]:
    """What holds devices now, and the row of the holder by device id."""
    shares: list[_Share] = []
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
            shares.append(_Share(job, node_row[node], cpus, memory_mib, until_s))
        holder[device] = row_of[placement]
    return shares, holder


def _load_devices(node_row: dict[int, int], holder: dict[int, int], models: _ModelRows) -> Devices:
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
    node_of, _, pk_of, model_of, group_of, healthy_of, holder_of = _columns(sorted(rows), 7)
    return Devices(
        id=ints(pk_of),
        node=ints(node_of),
        model=ints(model_of),
        link_group=ints(group_of),
        is_healthy=flags(healthy_of),
        holder=ints(holder_of),
        # A card that is shared is cut into slots, each a device of its own.
        is_shareable=flags([False] * len(rows)),
    )


def _nodes(rows: Sequence[Any], pool_row: dict[int, int], shares: Iterable[_Share]) -> Nodes:
    cpus_used: Counter[int] = Counter()
    used_mib: Counter[int] = Counter()
    for share in shares:
        cpus_used[share.node] += share.cpus
        used_mib[share.node] += share.memory_mib
    pk_of, pool_of, state_of, cpus_of, mib_of = _columns(rows, 5)
    return Nodes(
        id=ints(pk_of),
        pool=ints([pool_row[pk] for pk in pool_of]),
        state=ints([_STATE_ROW[NodeState(state)] for state in state_of]),
        takes_work=flags([state == NodeState.READY for state in state_of]),
        cpus_total=ints(cpus_of),
        # A node that came back smaller holds more than it has until its jobs end.
        cpus_free=ints([max(0, total - cpus_used[row]) for row, total in enumerate(cpus_of)]),
        memory_total_mib=ints(mib_of),
        memory_free_mib=ints([max(0, total - used_mib[row]) for row, total in enumerate(mib_of)]),
    )


def _load_jobs() -> list[Any]:
    return list(
        Job.objects.filter(state=JobState.QUEUED)
        .order_by("pk")
        .values_list(
            "pk",
            "pool_id",
            "queue_id",
            "tier",
            "queued_at",
            "nodes",
            "gpus_per_node",
            "cpus",
            "memory_mib",
            "gpu_model",
            "time_limit_s",
            "wait_reason",
        )
    )


def _load_avoided(node_row: dict[int, int]) -> dict[int, int]:
    """By queued job: the node row that its latest attempt failed on."""
    faults = (
        Placement.objects.filter(
            attempt__job__state=JobState.QUEUED,
            attempt__end_reason__in=_NODE_FAULTS,
            end_reason__in=_NODE_FAULTS,
        )
        .order_by("attempt__number", "rank")
        .values_list("attempt__job_id", "node_id")
    )
    return {job: node_row[node] for job, node in faults if node in node_row}


def _waiting(
    rows: list[Any],
    pool_row: dict[int, int],
    queue_row: dict[int, int],
    models: _ModelRows,
    avoided: dict[int, int],
) -> Waiting:
    pk, pool, queue, tier, queued_at, nodes, gpus, cpus, mib, model, limit_s, _ = _columns(rows, 12)
    return Waiting(
        id=ints(pk),
        pool=ints([pool_row[key] for key in pool]),
        queue=ints([queue_row[key] for key in queue]),
        tier=ints(tier),
        queued_at_s=floats([moment.timestamp() for moment in queued_at]),
        nodes=ints(nodes),
        gpus_per_node=ints(gpus),
        cpus=ints(cpus),
        memory_mib=ints(mib),
        model=ints([models.wanted(name) for name in model]),
        time_limit_s=ints(limit_s),
        avoid_node=ints([avoided.get(key, NONE) for key in pk]),
        part_gpus=ints([0] * len(pk)),
        remaining_s=floats(limit_s),
        gpu_milli=ints([WHOLE_MILLI] * len(rows)),
        attained_s=floats([0.0] * len(pk)),
        learnt_s=floats([math.inf] * len(pk)),
    )


def _columns(rows: Sequence[Any], width: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) or [()] * width
