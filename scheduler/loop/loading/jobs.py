"""Queued jobs, and where they failed last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db.models import IntegerField, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import NONE, Waiting, floats, ints
from scheduler.loop.loading.accounts import Owners
from scheduler.loop.loading.columns import (
    Columns,
    ModelRows,
    columns_of,
    looked_up,
    rows_of_ids,
    seconds_of,
)
from scheduler.loop.loading.texts import LineMemory, as_lines, rows_of_lines
from scheduler.models import Job, Placement
from scheduler.states import END_RULES, FailureClass, JobState

# An attempt that ended for one of these reasons avoids the node the next time.
_NODE_FAULTS = [
    reason
    for reason, rule in END_RULES.items()
    if rule.failure in (FailureClass.INFRA_GPU, FailureClass.INFRA_NODE, FailureClass.PLATFORM)
]


JOB_FIELDS = (
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
    "project_id",
    "owner_id",
    "end_reason",
)
_NO_NUMBERS = ("queued_at", "gpu_model", "wait_reason", "end_reason")
# Ids of one statement.
_MANY = 2000


@dataclass(slots=True)
class JobMemory:
    """Columns of queued jobs, and the lines they were made of."""

    _lines: LineMemory = field(default_factory=lambda: LineMemory(_columns))

    def load(self, also: Sequence[Job] = ()) -> Columns:
        """Every queued job in the order of ids, by field, then those of `also`, which are no rows;
        `queued_at` in seconds. One query."""
        made, more = self._lines.take(WAITING.read()[0][0]), _drafts(also)
        return {name: np.concatenate([made[name], more[name]]) for name in JOB_FIELDS}


def _waiting() -> QuerySet[Job, tuple[str | None]]:
    return as_lines(Job.objects.filter(state=JobState.QUEUED), JOB_FIELDS)


WAITING = AskedOnce(_waiting)


def fields_of(job: Job, names: Sequence[str]) -> tuple[Any, ...]:
    """As `values_list` would give them, of a job that need not be a row."""
    return tuple(getattr(job, name) for name in names)


def _drafts(jobs: Sequence[Job]) -> Columns:
    columns: Columns = columns_of((fields_of(job, JOB_FIELDS) for job in jobs), JOB_FIELDS)
    return _typed(columns, [moment.timestamp() for moment in columns["queued_at"]])


def _columns(lines: Sequence[str]) -> Columns:
    columns: Columns = columns_of(rows_of_lines(lines), JOB_FIELDS)
    return _typed(columns, list(map(seconds_of, columns["queued_at"])))


def _typed(columns: Columns, queued_at_s: Sequence[float]) -> Columns:
    found: Columns = {name: ints(columns[name]) for name in JOB_FIELDS if name not in _NO_NUMBERS}
    words = {name: np.array(columns[name], dtype=object) for name in _NO_NUMBERS}
    return {**found, **words, "queued_at": floats(queued_at_s)}


def load_avoided(jobs: Columns, node_row: Mapping[int, int]) -> dict[int, int]:
    """By queued job: the node row of the rank that its latest failed attempt failed on.

    A query for those that were tried before, none if nobody was; whose end is known is in the row
    of the job, so that the thousands that wait for their first try are not looked for.
    """
    tried = jobs["pk"][jobs["end_reason"] != ""].tolist()
    if not tried:
        return {}
    faults = Placement.objects.filter(
        attempt__end_reason__in=_NODE_FAULTS,
        rank=Cast(KeyTextTransform("rank", "attempt__end_facts"), IntegerField()),
    )
    if len(tried) <= _MANY:
        faults = faults.filter(attempt__job__in=tried)
    else:
        faults = faults.filter(attempt__job__state=JobState.QUEUED)
    found = faults.order_by("attempt__number").values_list("attempt__job_id", "node_id")
    return {job: node_row[node] for job, node in found if node in node_row}


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Which row of the snapshot belongs to what columns of jobs name."""

    pools: Mapping[int, int]
    queues: Mapping[int, int]
    models: ModelRows
    owners: Owners
    avoided: Mapping[int, int] = field(default_factory=dict)
    team_of: Mapping[int, int] = field(default_factory=dict)


def as_waiting(jobs: Columns, rows: Rows) -> Waiting:
    """Jobs in the order of ids, by `JOB_FIELDS` with `queued_at` in seconds, as the engine sees
    them, what `wishes.py` reads aside."""
    ids, projects = ints(jobs["pk"]), ints(jobs["project_id"])
    avoid = ints(np.full(len(ids), NONE))
    tried = np.flatnonzero(np.isin(ids, list(rows.avoided)))
    avoid[tried] = [rows.avoided[pk] for pk in ids[tried].tolist()]
    return Waiting.of(
        id=ids,
        pool=rows_of_ids(rows.pools.__getitem__, ints(jobs["pool_id"])),
        queue=rows_of_ids(rows.queues.__getitem__, ints(jobs["queue_id"])),
        tier=ints(jobs["tier"]),
        queued_at_s=floats(jobs["queued_at"]),
        nodes=ints(jobs["nodes"]),
        gpus_per_node=ints(jobs["gpus_per_node"]),
        cpus=ints(jobs["cpus"]),
        memory_mib=ints(jobs["memory_mib"]),
        model=looked_up(jobs["gpu_model"], rows.models.wanted),
        time_limit_s=ints(jobs["time_limit_s"]),
        avoid_node=avoid,
        remaining_s=floats(jobs["time_limit_s"]),
        tenant=rows_of_ids(lambda key: rows.team_of.get(key, NONE), projects),
        account=rows.owners.of(projects),
        sharer=rows.owners.sharers(projects, ints(jobs["owner_id"])),
    )
