"""The openb trace as the engine sees it: nodes, pods and the order in which they arrive.

Data: cluster-trace-gpu-v2023 of github.com/alibaba/clusterdata, as in the simulator of Weng et al.,
"Beware of Fragmentation", USENIX ATC 2023. cpus are milli-CPU here.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeAlias

import numpy as np

from portal.embedded.places import StackProblem
from scheduler.engine.snapshot import (
    NODE_STATES,
    NONE,
    WHOLE_MILLI,
    Demand,
    Devices,
    Held,
    Ints,
    Nodes,
    Snapshot,
    Waiting,
    flags,
    floats,
    ints,
)
from scheduler.states import NodeState

NODE_COLUMNS = ("cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")
Rows: TypeAlias = tuple[Mapping[str, str], ...]
# Nothing finishes here; a time limit is only what every job has.
LIMIT_S = 3600


class TraceProblem(StackProblem):
    """The trace cannot be read; says which file and what to do."""


@dataclass(frozen=True, slots=True, eq=False)
class Machines:
    """One row per node."""

    cpus: Ints
    memory_mib: Ints
    gpus: Ints
    model: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Pods:
    """One row per pod; `gpu_milli` is per GPU, 1000 where there is none."""

    cpus: Ints
    memory_mib: Ints
    gpus: Ints
    gpu_milli: Ints
    model: Ints

    @property
    def asked_milli(self) -> Ints:
        """Milli-GPU of each pod."""
        return self.gpus * self.gpu_milli


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """`orders`: by seed the arriving pods (rows) and the rank of each node among equals."""

    nodes: Machines
    models: tuple[str, ...]
    model_sets: tuple[tuple[int, ...], ...]
    pods: Pods
    orders: Mapping[int, tuple[Ints, Ints]]

    @property
    def capacity_milli(self) -> int:
        """Milli-GPU of all nodes."""
        return int(self.nodes.gpus.sum()) * WHOLE_MILLI


def read_trace(nodes: Path, pods: Path, orders: Path) -> Trace:
    """Read the three files, plain or `.gz`. Raises TraceProblem."""
    node_rows = _table(nodes, NODE_COLUMNS)
    pod_rows = _table(pods, POD_COLUMNS)
    specs = [tuple(sorted(filter(None, (row["gpu_spec"] or "").split("|")))) for row in pod_rows]
    named = {row["model"] for row in node_rows} | {name for spec in specs for name in spec}
    models = tuple(sorted(named))
    sets = sorted({spec for spec in specs if len(spec) > 1})
    row_of: dict[tuple[str, ...], int] = {(): NONE}
    row_of |= {(name,): row for row, name in enumerate(models)}
    row_of |= {spec: len(models) + row for row, spec in enumerate(sets)}
    gpus, milli = _whole(pods, pod_rows, "num_gpu"), _whole(pods, pod_rows, "gpu_milli")
    return Trace(
        nodes=Machines(
            cpus=_whole(nodes, node_rows, "cpu_milli"),
            memory_mib=_whole(nodes, node_rows, "memory_mib"),
            gpus=_whole(nodes, node_rows, "gpu"),
            model=ints([row_of[(row["model"],)] for row in node_rows]),
        ),
        models=models,
        model_sets=tuple(tuple(models.index(name) for name in spec) for spec in sets),
        pods=Pods(
            cpus=_whole(pods, pod_rows, "cpu_milli"),
            memory_mib=_whole(pods, pod_rows, "memory_mib"),
            gpus=gpus,
            gpu_milli=ints(np.where(gpus > 0, milli, WHOLE_MILLI)),
            model=ints([row_of[spec] for spec in specs]),
        ),
        orders=_orders(orders, len(pod_rows), len(node_rows)),
    )


def _whole(path: Path, rows: Rows, column: str) -> Ints:
    """A column of whole numbers."""
    try:
        return ints([int(row[column]) for row in rows])
    except (TypeError, ValueError) as problem:
        raise TraceProblem(f"{path}: {column}: {problem}; write whole numbers") from None


def _open(path: Path) -> TextIO:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    except OSError as problem:
        raise TraceProblem(f"{path} cannot be read: {problem.strerror}; give a file") from None


def _table(path: Path, columns: tuple[str, ...]) -> Rows:
    with _open(path) as file:
        reader = csv.DictReader(file)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise TraceProblem(f"{path} has no column {', '.join(missing)}; give an openb list")
        return tuple(reader)


def _orders(path: Path, pods: int, nodes: int) -> dict[int, tuple[Ints, Ints]]:
    """Lines `seed,pods,<rows>` and `seed,nodes,<rank of each node>`."""
    parts: dict[tuple[int, str], Ints] = {}
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            try:
                name, kind, values = line.rstrip("\n").split(",", 2)
                parts[int(name), kind] = ints([int(value) for value in values.split()])
            except ValueError:
                raise TraceProblem(
                    f"{path} line {number} is not `seed,pods,<rows>` or `seed,nodes,<ranks>`"
                ) from None
    found: dict[int, tuple[Ints, Ints]] = {}
    for seed in sorted({seed for seed, _ in parts}):
        arrivals, rank = parts.get((seed, "pods"), ints([])), parts.get((seed, "nodes"), ints([]))
        if not len(arrivals) or arrivals.min() < 0 or arrivals.max() >= pods:
            raise TraceProblem(f"{path}: the pods of seed {seed} must be rows 0 to {pods - 1}")
        if sorted(rank.tolist()) != list(range(nodes)):
            raise TraceProblem(
                f"{path}: the nodes of seed {seed} must be 0 to {nodes - 1}, each once"
            )
        found[seed] = (arrivals, rank)
    return found


def snapshot_of(trace: Trace, arrivals: Ints, rank: Ints, tile: int) -> Snapshot:
    """The empty cluster, `tile` times over, and all arrivals waiting in their order.

    Node rows are in the order of `rank`, since the engine takes the lower row of equals.
    """
    order = np.tile(np.argsort(rank), tile)
    nodes, count = trace.nodes, len(order)
    cpus, memory_mib = nodes.cpus[order], nodes.memory_mib[order]
    node_of = ints(np.repeat(np.arange(count), nodes.gpus[order]))
    size = len(node_of)
    pods, everybody = trace.pods, ints([1] * len(trace.pods.cpus))
    return Snapshot(
        now_s=0.0,
        pools=("openb",),
        queues=("openb",),
        queue_is_paused=flags([False]),
        models=trace.models,
        model_sets=trace.model_sets,
        nodes=Nodes.of(
            id=ints(np.arange(count)),
            pool=ints(np.zeros(count)),
            state=ints([NODE_STATES.index(NodeState.READY)] * count),
            takes_work=flags(np.ones(count)),
            cpus_total=cpus,
            cpus_free=cpus,
            memory_total_mib=memory_mib,
            memory_free_mib=memory_mib,
        ),
        devices=Devices.of(
            id=ints(np.arange(size)),
            node=node_of,
            model=nodes.model[order][node_of],
            link_group=node_of,
            is_healthy=flags(np.ones(size)),
            holder=ints(np.full(size, NONE)),
            is_shareable=flags(np.ones(size)),
        ),
        held=Held.of(
            job=ints([]), node=ints([]), cpus=ints([]), memory_mib=ints([]), until_s=floats([])
        ),
        waiting=_waiting(pods, np.tile(arrivals, tile)),
        demand=Demand(pods.gpus, pods.gpu_milli, pods.cpus, pods.model, everybody),
    )


def _waiting(pods: Pods, arrivals: Ints) -> Waiting:
    size = len(arrivals)
    zeros, ones = ints(np.zeros(size)), ints(np.ones(size))
    return Waiting.of(
        id=ints(np.arange(size)),
        pool=zeros,
        queue=zeros,
        tier=zeros,
        queued_at_s=floats(np.arange(size)),
        nodes=ones,
        gpus_per_node=pods.gpus[arrivals],
        cpus=pods.cpus[arrivals],
        memory_mib=pods.memory_mib[arrivals],
        model=pods.model[arrivals],
        time_limit_s=ones * LIMIT_S,
        remaining_s=floats(ones * LIMIT_S),
        gpu_milli=pods.gpu_milli[arrivals],
    )
