"""What jobs ask for: those that wait, those that may be stopped, and equal ones as one class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from scheduler.engine.grouping import group_rows
from scheduler.engine.snapshot.columns import (
    NONE,
    WHOLE_MILLI,
    Flags,
    Floats,
    Ints,
    Table,
    floats,
)

# What all nodes of a job have in common, by row; row 0 asks for nothing.
TOPOLOGIES = ("", "rack", "block")
# How firmly: in one, in as few as possible, or in as few as hold equal parts of it.
SPREADS = ("required", "preferred", "balanced")


@dataclass(frozen=True, slots=True, eq=False)
class Waiting(Table):
    """Every queued job. cpus, memory and GPUs are per node.

    `gpus_per_node` 0 asks for no GPU. `gpu_milli` is asked of each device: 1000 is a whole one,
    less a share, of one device. `model` is a row of `models`, or behind them of `model_sets`; -1
    takes any. cpus may be in any unit, if it is that of the nodes.

    `part_gpus` more are wanted on one further node, 0 for none. `remaining_s`: the run time still
    ahead as declared, infinite if nobody said; `attained_s`: run so far; `learnt_s`: as far ahead
    as that of others tells, infinite if nothing does. `avoid_node`: where it failed last for the
    platform's reasons (row), -1 for none. `most_cost`: what is left of its highest price, in the
    unit that prices a second are in, infinite for none. `account`: whose limits hold for it,
    `sharer`: whose share it takes (rows of `Accounts`); -1 for none, and for the account itself.

    Shape: `nodes_min` below `nodes` lets it start smaller, 0 does not; `sizes` is a row of
    `size_sets` with the numbers of nodes it can use, -1 for all. `topology`: row of `TOPOLOGIES`,
    `spread`: row of `SPREADS`. `is_exclusive`: nobody else on its nodes, and all their devices
    are its own.
    Limits: `mask` (row of `node_masks`), `gpu_memory_mib` of each device, `scratch_mib` per node,
    `licences` (row of `licence_sets`) and `dataset` (row of `missing_mib`), -1 for none;
    `isolation` (row of `ISOLATIONS`) at least. `tenant`: whose job it is; it takes a card with
    others only if it and all of them share (`shares_cards`). `prefers`: the order of its model set
    is one of preference.
    Calendar: `booking` is the row of `Bookings` it belongs to, -1 for none; `uses_headroom` says
    that what is kept for production is open to it.
    """

    USUAL: ClassVar[Mapping[str, int | float | bool]] = {
        "model": NONE,
        "avoid_node": NONE,
        "part_gpus": 0,
        "gpu_milli": WHOLE_MILLI,
        "attained_s": 0.0,
        "learnt_s": np.inf,
        "most_cost": np.inf,
        "nodes_min": 0,
        "sizes": NONE,
        "topology": 0,
        "spread": 0,
        "is_exclusive": False,
        "mask": NONE,
        "gpu_memory_mib": 0,
        "scratch_mib": 0,
        "licences": NONE,
        "dataset": NONE,
        "isolation": 0,
        "tenant": NONE,
        "shares_cards": False,
        "prefers": False,
        "account": NONE,
        "sharer": NONE,
        "booking": NONE,
        "uses_headroom": False,
    }

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
    most_cost: Floats
    nodes_min: Ints
    sizes: Ints
    topology: Ints
    spread: Ints
    is_exclusive: Flags
    mask: Ints
    gpu_memory_mib: Ints
    scratch_mib: Ints
    licences: Ints
    dataset: Ints
    isolation: Ints
    tenant: Ints
    shares_cards: Flags
    prefers: Flags
    account: Ints
    sharer: Ints
    booking: Ints
    uses_headroom: Flags

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """Live jobs that may be stopped, row for row with `jobs`, which says how they would wait then.

    A stop adds `restart_cost_s` of work. `ran_s`: how long it has run since it last started, and
    `checkpoint_age_s`: how long ago its last confirmed checkpoint was taken; infinite if it never
    reported one. `least_s`: the run time it was promised after each start; `rested_s`: how long
    ago it was stopped for another job, infinite for never.
    """

    USUAL: ClassVar[Mapping[str, float]] = {
        "ran_s": np.inf,
        "checkpoint_age_s": 0.0,
        "least_s": 0.0,
        "rested_s": np.inf,
    }

    jobs: Waiting
    restart_cost_s: Floats
    ran_s: Floats
    checkpoint_age_s: Floats
    least_s: Floats
    rested_s: Floats

    @classmethod
    def of_jobs(cls, jobs: Waiting, **columns: Floats) -> Running:
        """These jobs with these columns, the others filled with what is usual."""
        usual = {name: floats(np.full(len(jobs), value)) for name, value in cls.USUAL.items()}
        return cls(jobs=jobs, **{**usual, **columns})

    def take(self, rows: Ints | Flags) -> Running:
        """These rows only."""
        names = [column.name for column in fields(self) if column.name != "jobs"]
        columns = {name: getattr(self, name)[rows] for name in names}
        return Running(jobs=self.jobs.take(rows), **columns)

    def lengths(self) -> set[int]:
        """Of all columns; one, unless the table contradicts itself."""
        return {len(getattr(self, column.name)) for column in fields(self)}


@dataclass(frozen=True, slots=True)
class Request:
    """What one class of equal waiting jobs asks for; figures are per node.

    Each field is the column of `Waiting` with its name, `gpus` being `gpus_per_node`.
    """

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
    nodes_min: int = 0
    sizes: int = NONE
    topology: int = 0
    spread: int = 0
    is_exclusive: bool = False
    mask: int = NONE
    gpu_memory_mib: int = 0
    scratch_mib: int = 0
    licences: int = NONE
    dataset: int = NONE
    isolation: int = 0
    tenant: int = NONE
    shares_cards: bool = False
    prefers: bool = False
    booking: int = NONE
    uses_headroom: bool = False

    @property
    def least_nodes(self) -> int:
        """With how many nodes it can start at all."""
        return self.nodes_min or self.nodes

    @property
    def is_counted(self) -> bool:
        """Whether GPUs, cpus and memory by node and model tell all about where it fits."""
        asks = self.gpu_memory_mib or self.isolation or self.scratch_mib or self.is_exclusive
        firm = self.topology and self.spread != SPREADS.index("preferred")
        return not asks and not firm and self.licences == NONE

    @property
    def is_share(self) -> bool:
        """Whether it asks for a part of one device."""
        return self.gpu_milli < WHOLE_MILLI

    @property
    def total_gpus(self) -> int:
        """GPUs of all shares."""
        return self.nodes * self.gpus + self.part_gpus

    @property
    def least_gpus(self) -> int:
        """GPUs with which it can start at all; an elastic job has equal shares."""
        return self.total_gpus * self.least_nodes // self.nodes

    def shapes(self) -> tuple[Request, ...]:
        """The equal shares as one request, then the smaller one on the further node, if any."""
        if not self.part_gpus:
            return (self,)
        whole = replace(self, part_gpus=0)
        return (whole, replace(whole, nodes=1, gpus=self.part_gpus))


@dataclass(frozen=True, slots=True, eq=False)
class Demand(Table):
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
    """Equal requests as one: `requests[of_job[row]]` is what waiting row `row` asks for.

    `room`: by class a number, the same for those that differ in nothing but their queue.
    """

    requests: tuple[Request, ...]
    of_job: Ints
    room: Ints

    def alike(self, row: int) -> Flags:
        """The classes that fit where this one does."""
        return np.asarray(self.room == self.room[row])


def classes_of(waiting: Waiting) -> Classes:
    """Group the waiting jobs by what they ask for; tier, age and time limit do not matter."""
    names = ["gpus_per_node" if f.name == "gpus" else f.name for f in fields(Request)]
    columns = [getattr(waiting, name) for name in names]
    first, of_job = group_rows(columns)
    columns = [column[first] for column in columns]
    table = zip(*(column.tolist() for column in columns), strict=True)
    queue = names.index("queue")
    room = group_rows(columns[:queue] + columns[queue + 1 :])[1]
    return Classes(tuple(_request(row) for row in table), of_job, room)


@lru_cache(maxsize=16384)
def _request(row: tuple[Any, ...]) -> Request:
    """The same ones wait in cycle after cycle, and making one takes longer than finding it."""
    return Request(*row)


@lru_cache(maxsize=16384)
def of_any_queue(request: Request) -> Request:
    """The same without its queue, for what has nothing to do with queues."""
    return replace(request, queue=NONE)
