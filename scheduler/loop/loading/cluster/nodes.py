"""Nodes as the engine sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import NODE_STATES, Ints, Nodes, flags, ints
from scheduler.loop.loading.cluster.labels import places_of
from scheduler.loop.loading.cluster.shares import Share
from scheduler.loop.loading.columns import Columns, columns_of
from scheduler.models import Node, Placement
from scheduler.models.attempts import NODE_FAULTS
from scheduler.states import NodeState

_OUT = (NodeState.DRAINING, NodeState.DRAINED)
_SIZES = ("cpus", "memory_mib", "scratch_mib")
_STATE_ROW = {state: row for row, state in enumerate(NODE_STATES)}
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
    "counts_from",
)


def load_nodes() -> Columns:
    """Every node that is not retired, by field."""
    return columns_of(PRESENT.read(), _NODE_FIELDS)


def _present() -> QuerySet[Node, tuple[Any, ...]]:
    present = Node.objects.exclude(state=NodeState.RETIRED).order_by("pool_id", "name")
    return present.values_list(*_NODE_FIELDS)


def load_failures(since: datetime) -> Counter[int]:
    """By node (its id), how often something of its own ended a rank since then."""
    return Counter(node for (node,) in FAILED.read(since))


def _failed(since: datetime) -> QuerySet[Placement, tuple[Any, ...]]:
    failed = Placement.objects.filter(end_reason__in=NODE_FAULTS, ended_at__gte=since)
    return failed.order_by().values_list("node_id")


PRESENT, FAILED = AskedOnce(_present), AskedOnce(_failed)


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
    # A job of a database that was put back may run on a node that was not heard since.
    is_counting = any(one is not None for one in nodes["counts_from"])

    def free(name: str) -> Ints:
        # A node that came back smaller holds more than it has until its jobs end.
        return ints([max(0, total - used[name][row]) for row, total in enumerate(nodes[name])])

    return Nodes.of(
        id=ints(nodes["pk"]),
        pool=ints([pool_row[pk] for pk in nodes["pool_id"]]),
        state=ints([_STATE_ROW[NodeState(state)] for state in nodes["state"]]),
        takes_work=flags(
            [
                not is_counting
                and (state == NodeState.READY or (pk in in_maintenance and state in _OUT))
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
