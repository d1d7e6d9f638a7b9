"""Queued jobs, and where they failed last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from scheduler.engine.snapshot import NONE, Waiting, floats, ints
from scheduler.loop.loading.accounts import Owners
from scheduler.loop.loading.columns import Columns, ModelRows, columns_of
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
)


def load_jobs(also: Sequence[Job] = ()) -> Columns:
    """Every queued job, by field; then those of `also`, which are no rows."""
    queued = Job.objects.filter(state=JobState.QUEUED).order_by("pk")
    rows = chain(queued.values_list(*JOB_FIELDS), (fields_of(job, JOB_FIELDS) for job in also))
    return columns_of(rows, JOB_FIELDS)


def fields_of(job: Job, names: Sequence[str]) -> tuple[Any, ...]:
    """As `values_list` would give them, of a job that need not be a row."""
    return tuple(getattr(job, name) for name in names)


def load_avoided(node_row: dict[int, int]) -> dict[int, int]:
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


def as_waiting(
    jobs: Columns,
    pool_row: dict[int, int],
    queue_row: dict[int, int],
    models: ModelRows,
    avoided: dict[int, int],
    team_of: Mapping[int, int],
    owners: Owners,
) -> Waiting:
    """The jobs of `load_jobs` as the engine sees them, what `wishes.py` reads aside."""
    return Waiting.of(
        id=ints(jobs["pk"]),
        pool=ints([pool_row[key] for key in jobs["pool_id"]]),
        queue=ints([queue_row[key] for key in jobs["queue_id"]]),
        tier=ints(jobs["tier"]),
        queued_at_s=floats([moment.timestamp() for moment in jobs["queued_at"]]),
        nodes=ints(jobs["nodes"]),
        gpus_per_node=ints(jobs["gpus_per_node"]),
        cpus=ints(jobs["cpus"]),
        memory_mib=ints(jobs["memory_mib"]),
        model=ints([models.wanted(name) for name in jobs["gpu_model"]]),
        time_limit_s=ints(jobs["time_limit_s"]),
        avoid_node=ints([avoided.get(key, NONE) for key in jobs["pk"]]),
        remaining_s=floats(jobs["time_limit_s"]),
        tenant=ints([team_of.get(key, NONE) for key in jobs["project_id"]]),
        account=owners.of(jobs["project_id"]),
        sharer=owners.sharers(jobs["project_id"], jobs["owner_id"]),
    )
