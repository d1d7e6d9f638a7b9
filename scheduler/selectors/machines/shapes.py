"""What a pool could hold at most, whatever is free: for refusing what can never start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max, Q, QuerySet

from accounts.statements import Asked, AskedOnce
from scheduler.models import Device, Node, Pool
from scheduler.spec.values import WHOLE_MILLI, is_mig_profile
from scheduler.states import NodeState

_GONE = (NodeState.RETIRED, NodeState.LOST)


@dataclass(frozen=True, slots=True)
class Shape:
    """The most one node of a pool can hold; `counts` are devices per node, largest first."""

    nodes: int
    gpus_per_node: int
    cpus: int
    memory_mib: int
    models: tuple[str, ...]
    counts: tuple[int, ...]

    def nodes_with(self, gpus: int) -> int:
        """How many nodes have at least so many devices; 0 counts those without any too."""
        return sum(count >= gpus for count in self.counts) if gpus else self.nodes


def serving(devices: QuerySet[Device], gpu_model: str, milli: int) -> QuerySet[Device]:
    """Of the devices those that one GPU of a job may be: whole cards, parts that are large enough,
    or just what the model names."""
    if milli < WHOLE_MILLI:
        devices = devices.filter(parent__isnull=False, milli__gte=milli)
        named = Q(model=gpu_model) | Q(parent__model=gpu_model)
        return devices.filter(named) if gpu_model else devices
    if is_mig_profile(gpu_model):
        return devices.filter(model__endswith=f" MIG {gpu_model}")
    return devices.filter(Q(model=gpu_model) if gpu_model else Q(parent__isnull=True))


def largest_shape(pool: Pool, gpu_model: str = "", milli: int = WHOLE_MILLI) -> Shape:
    """What the pool's nodes, whatever their state, offer at most."""
    ((nodes, cpus, memory_mib),) = _TOTALS.read(pool.pk) or [(0, 0, 0)]
    if milli < WHOLE_MILLI or is_mig_profile(gpu_model):
        found = list(_counts(pool.pk, gpu_model, milli))
    else:
        found = _NAMED.read(pool.pk, gpu_model) if gpu_model else _ANY.read(pool.pk)
    counts = tuple(count for (count,) in found)
    return Shape(
        nodes=nodes,
        gpus_per_node=counts[0] if counts else 0,
        cpus=cpus,
        memory_mib=memory_mib,
        models=tuple(model for (model,) in _MODELS.read(pool.pk)),
        counts=counts,
    )


def _nodes(pool: int) -> QuerySet[Node]:
    return Node.objects.filter(pool=pool).exclude(state__in=_GONE).order_by()


def _present(pool: int) -> QuerySet[Device]:
    return Device.objects.filter(node__in=_nodes(pool), is_present=True, in_service=True)


def _totals(pool: int) -> QuerySet[Node, Any]:
    most = _nodes(pool).values("pool").annotate(count=Count("pk"), most=Max("cpus"))
    return most.annotate(memory=Max("memory_mib")).values_list("count", "most", "memory")


def _models(pool: int) -> QuerySet[Device, Any]:
    return _present(pool).order_by("model").values_list("model").distinct()


def _counts(pool: int, gpu_model: str = "", milli: int = WHOLE_MILLI) -> QuerySet[Device, Any]:
    found = serving(_present(pool), gpu_model, milli).values("node").annotate(n=Count("pk"))
    return found.order_by("-n").values_list("n")


# Asked with each submit.
_TOTALS, _MODELS = AskedOnce(_totals), AskedOnce(_models)
_ANY, _NAMED = AskedOnce(_counts), AskedOnce(_counts)


def shape_reads(pool: int, gpu_model: str) -> list[Asked]:
    """What `largest_shape` asks for whole GPUs, for who reads other things with it."""
    counts: Asked = (_NAMED, (pool, gpu_model)) if gpu_model else (_ANY, (pool,))
    return [(_TOTALS, (pool,)), (_MODELS, (pool,)), counts]
