"""What the engine sees: columns, one row per node, device, placement and waiting job.

Rows refer to each other by row number, never by id; ids are only carried through to the plan.
Times are seconds since 1970, sizes MiB. -1 stands for "none".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.engine.grouping import group_rows
from scheduler.states import NodeState

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NODE_STATES: tuple[NodeState, ...] = tuple(NodeState)
NONE = -1
# A whole device, in milli-GPU.
WHOLE_MILLI = 1000


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

    `holder` is the row of the placement that holds it whole, -1 for none. `link_group` numbers
    groups of devices of one node that reach each other fast; each belongs to one node. Only a
    shareable device may be held in part, by several; see `Slices`.
    """

    id: Ints
    node: Ints
    model: Ints
    link_group: Ints
    is_healthy: Flags
    holder: Ints
    is_shareable: Flags

    def free_milli(self, slices: Slices) -> Ints:
        """What nobody holds of each device, in milli-GPU."""
        held = np.bincount(slices.device, weights=slices.milli, minlength=len(self.id))
        return ints(np.where(self.holder == NONE, WHOLE_MILLI - held, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """Parts of shareable devices: a placement (row) holds so much of a device (row)."""

    holder: Ints
    device: Ints
    milli: Ints


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
    """Every queued job. cpus, memory and GPUs are per node.

    `gpus_per_node` 0 asks for no GPU. `gpu_milli` is asked of each device: 1000 is a whole one,
    less a share, of one device. `model` is a row of `models`, or behind them of `model_sets`; -1
    takes any. cpus may be in any unit, if it is that of the nodes.

    `part_gpus` more are wanted on one further node, 0 for none. `remaining_s`: the run time still
    ahead as declared, infinite if nobody said; `attained_s`: run so far; `learnt_s`: as far ahead
    as that of others tells, infinite if nothing does. `avoid_node`: where it failed last for the
    platform's reasons (row), -1 for none.
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
    gpu_milli: Ints
    attained_s: Floats
    learnt_s: Floats

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """Live jobs that may be stopped, as they would wait; a stop adds `restart_cost_s` of work."""

    jobs: Waiting
    restart_cost_s: Floats


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
    gpu_milli: int = WHOLE_MILLI

    @property
    def is_share(self) -> bool:
        """Whether it asks for a part of one device."""
        return self.gpu_milli < WHOLE_MILLI

    @property
    def total_gpus(self) -> int:
        """GPUs of all shares."""
        return self.nodes * self.gpus + self.part_gpus

    def shapes(self) -> tuple[Request, ...]:
        """The equal shares as one request, then the smaller one on the further node, if any."""
        if not self.part_gpus:
            return (self,)
        whole = replace(self, part_gpus=0)
        return (whole, replace(whole, nodes=1, gpus=self.part_gpus))


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What is usually asked for, one row per kind of request, `count` times each.

    The rest as in `Waiting`; `gpus` and `cpus` are per node.
    """

    gpus: Ints
    gpu_milli: Ints
    cpus: Ints
    model: Ints
    count: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Equal requests as one: `requests[of_job[row]]` is what waiting row `row` asks for."""

    requests: tuple[Request, ...]
    of_job: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The whole cluster at one moment. The tuples give names to pool, queue and model numbers.

    `wait_limit_s`, by pool: who has waited longer goes first. None sets no limit.
    `model_sets` are rows of `models` of which a job takes any one. `demand`: what to keep room
    for; left empty it is what waits.
    `running`: the live jobs that may be stopped; None if nobody may.
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
    running: Running | None = None
    model_sets: tuple[tuple[int, ...], ...] = ()
    slices: Slices = field(default_factory=lambda: Slices(*[ints([])] * 3))
    demand: Demand = field(default_factory=lambda: Demand(*[ints([])] * 5))

    def accepts(self) -> Flags:
        """By row of a `model` column, the last for any, whether it takes each model."""
        models = len(self.models)
        table = np.zeros((models + len(self.model_sets) + 1, models), dtype=np.bool_)
        table[:models] = np.eye(models)
        for row, members in enumerate(self.model_sets):
            table[models + row, list(members)] = True
        table[NONE] = True
        return table

    def only(self, rows: Ints) -> Snapshot:
        """The same cluster with only these rows of waiting jobs."""
        waiting = self.waiting
        cut = {column.name: getattr(waiting, column.name)[rows] for column in fields(waiting)}
        return replace(self, waiting=Waiting(**cut))


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
        waiting.gpu_milli,
    ]
    first, of_job = group_rows(columns)
    table = zip(*(column[first].tolist() for column in columns), strict=True)
    return Classes(tuple(Request(*row) for row in table), of_job)
