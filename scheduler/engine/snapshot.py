"""What the engine sees: columns, one row per node, device, placement and waiting job.

Rows refer to each other by row number, never by id; ids are only carried through to the plan.
Times are seconds since 1970, sizes MiB. -1 stands for "none".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.states import NodeState

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NODE_STATES: tuple[NodeState, ...] = tuple(NodeState)
NONE = -1


def ints(values: object) -> Ints:
    """A column of whole numbers."""
    return np.asarray(values, dtype=np.int64).reshape(-1)


def floats(values: object) -> Floats:
    """A column of seconds."""
    return np.asarray(values, dtype=np.float64).reshape(-1)


def flags(values: object) -> Flags:
    """A column of yes and no."""
    return np.asarray(values, dtype=np.bool_).reshape(-1)


def rows_by_group(group: Ints) -> Iterator[tuple[int, Ints]]:
    """Each group number with its rows, ascending; one sort instead of a search per group."""
    order = ints(np.argsort(group, kind="stable"))
    numbers, first = np.unique(group[order], return_index=True)
    return (
        zip(numbers.tolist(), np.split(order, first[1:]), strict=True) if len(group) else iter(())
    )


class SnapshotInvalid(ValueError):
    """The snapshot contradicts itself; `jobs` are the ids of the waiting jobs to blame, if any."""

    def __init__(self, problem: str, jobs: tuple[int, ...] = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.jobs = jobs


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Every node that is not retired. `state` is a row of `NODE_STATES`."""

    id: Ints
    pool: Ints
    state: Ints
    takes_work: Flags
    cpus_total: Ints
    cpus_free: Ints
    memory_total_mib: Ints
    memory_free_mib: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """Every device that is present, sorted by node row, then index.

    `holder` is the row of the placement that holds it, -1 when free. `link_group` numbers groups
    of devices of one node that reach each other fast; each belongs to one node.
    """

    id: Ints
    node: Ints
    model: Ints
    link_group: Ints
    is_healthy: Flags
    holder: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Every placement that holds devices now. `until_s`: when its job reaches the time limit."""

    job: Ints
    node: Ints
    cpus: Ints
    memory_mib: Ints
    until_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Every queued job. cpus, memory and GPUs are per node; `model` -1 takes any.

    `part_gpus` more are wanted on one further node, 0 for none. `remaining_s`: the run time still
    ahead, declared or learnt, infinite if nobody knows. `avoid_node` is the node row where it
    failed last for the platform's reasons, -1 for none.
    """

    id: Ints
    pool: Ints
    queue: Ints
    tier: Ints
    queued_at_s: Floats
    nodes: Ints
    gpus_per_node: Ints
    cpus: Ints
    memory_mib: Ints
    model: Ints
    time_limit_s: Ints
    avoid_node: Ints
    part_gpus: Ints
    remaining_s: Floats

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True)
class Request:
    """What one class of equal waiting jobs asks for; figures are per node."""

    pool: int
    queue: int
    nodes: int
    gpus: int
    cpus: int
    memory_mib: int
    model: int
    avoid_node: int
    part_gpus: int = 0

    @property
    def total_gpus(self) -> int:
        """GPUs of all shares."""
        return self.nodes * self.gpus + self.part_gpus

    def shapes(self) -> tuple[Request, ...]:
        """The equal shares as one request, then the smaller one on the further node, if any."""
        whole = replace(self, part_gpus=0)
        if not self.part_gpus:
            return (whole,)
        return (whole, replace(whole, nodes=1, gpus=self.part_gpus))


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Equal requests as one: `requests[of_job[row]]` is what waiting row `row` asks for."""

    requests: tuple[Request, ...]
    of_job: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The whole cluster at one moment. The tuples give names to pool, queue and model numbers.

    `wait_limit_s`, by pool: who has waited longer goes first. None sets no limit.
    """

    now_s: float
    pools: tuple[str, ...]
    queues: tuple[str, ...]
    queue_is_paused: Flags
    models: tuple[str, ...]
    nodes: Nodes
    devices: Devices
    held: Held
    waiting: Waiting
    wait_limit_s: Floats | None = None

    def only(self, rows: Ints) -> Snapshot:
        """The same cluster with only these rows of waiting jobs."""
        waiting = self.waiting
        cut = {field.name: getattr(waiting, field.name)[rows] for field in fields(waiting)}
        return replace(self, waiting=Waiting(**cut))


def group_rows(columns: list[Ints]) -> tuple[Ints, Ints]:
    """Rows that are equal in every column form one group.

    Returns the first row of each group and, per row, its group. Equals `np.unique` over rows, but
    packs the columns into one number, which sorts ten times faster.
    """
    size = len(columns[0])
    if not size:
        return ints([]), ints([])
    key = np.zeros(size, dtype=np.int64)
    width = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        span = high - low + 1
        if width * span >= 2**62:
            _, key = np.unique(key, return_inverse=True)
            width = int(key.max()) + 1
            if width * span >= 2**62:
                _, column = np.unique(column, return_inverse=True)
                low, span = 0, int(column.max()) + 1
        key = key * span + (column - low)
        width *= span
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return ints(first), ints(group)


def classes_of(waiting: Waiting) -> Classes:
    """Group the waiting jobs by what they ask for; tier, age and time limit do not matter."""
    columns = [
        waiting.pool,
        waiting.queue,
        waiting.nodes,
        waiting.gpus_per_node,
        waiting.cpus,
        waiting.memory_mib,
        waiting.model,
        waiting.avoid_node,
        waiting.part_gpus,
    ]
    first, of_job = group_rows(columns)
    table = zip(*(column[first].tolist() for column in columns), strict=True)
    return Classes(tuple(Request(*row) for row in table), of_job)


def check_snapshot(snapshot: Snapshot) -> None:
    """Refuse a snapshot that contradicts itself, by name; raises SnapshotInvalid."""
    _check_lengths(snapshot)
    nodes, devices, held = snapshot.nodes, snapshot.devices, snapshot.held
    if not np.isfinite(snapshot.now_s):
        raise SnapshotInvalid("the time is not a number")
    _need("nodes.pool", _rows(nodes.pool, len(snapshot.pools)))
    _need("nodes.state", _rows(nodes.state, len(NODE_STATES)))
    for name in ("cpus_total", "cpus_free", "memory_total_mib", "memory_free_mib"):
        _need(f"nodes.{name}", getattr(nodes, name) >= 0)
    _need("devices.node", _rows(devices.node, len(nodes.id)))
    _need("devices.node order", np.diff(devices.node) >= 0)
    _need("devices.model", _rows(devices.model, len(snapshot.models)))
    _need("devices.holder", _rows(devices.holder, len(held.job), or_none=True))
    _need("devices.link_group", devices.link_group >= 0)
    _need("held.node", _rows(held.node, len(nodes.id)))
    _need("held.until_s", ~np.isnan(held.until_s))
    if snapshot.wait_limit_s is not None:
        _need("wait_limit_s", snapshot.wait_limit_s >= 0)
    _check_waiting(snapshot)


def _check_waiting(snapshot: Snapshot) -> None:
    waiting = snapshot.waiting
    if len(np.unique(waiting.id)) != len(waiting.id):
        raise SnapshotInvalid("a job waits twice")
    rules: dict[str, Flags] = {
        "pool": _rows(waiting.pool, len(snapshot.pools)),
        "queue": _rows(waiting.queue, len(snapshot.queues)),
        "queued_at_s": np.isfinite(waiting.queued_at_s),
        "nodes": waiting.nodes >= 1,
        "gpus_per_node": waiting.gpus_per_node >= 1,
        "cpus": waiting.cpus >= 0,
        "memory_mib": waiting.memory_mib >= 0,
        "model": _rows(waiting.model, len(snapshot.models), or_none=True),
        "time_limit_s": waiting.time_limit_s >= 1,
        "avoid_node": _rows(waiting.avoid_node, len(snapshot.nodes.id), or_none=True),
        "part_gpus": (waiting.part_gpus >= 0) & (waiting.part_gpus < waiting.gpus_per_node),
        "remaining_s": waiting.remaining_s > 0,
    }
    for name, holds in rules.items():
        if not holds.all():
            jobs = tuple(waiting.id[~holds].tolist())
            raise SnapshotInvalid(f"waiting.{name} has a value that makes no sense", jobs)


def _check_lengths(snapshot: Snapshot) -> None:
    for table in (snapshot.nodes, snapshot.devices, snapshot.held, snapshot.waiting):
        if len({len(getattr(table, field.name)) for field in fields(table)}) > 1:
            raise SnapshotInvalid(f"the columns of {type(table).__name__} differ in length")
    if snapshot.wait_limit_s is not None and len(snapshot.wait_limit_s) != len(snapshot.pools):
        raise SnapshotInvalid("wait_limit_s and pools differ in length")
    if len(snapshot.queue_is_paused) != len(snapshot.queues):
        raise SnapshotInvalid("queue_is_paused and queues differ in length")


def _rows(column: Ints, count: int, *, or_none: bool = False) -> Flags:
    return np.asarray((column >= (NONE if or_none else 0)) & (column < count))


def _need(name: str, holds: Flags) -> None:
    if not holds.all():
        raise SnapshotInvalid(f"{name} has a value that makes no sense")
