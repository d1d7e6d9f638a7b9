"""Past jobs as a trace, for the simulator. For the operator's shell: it leaves out nobody."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from django.db.models import Count, QuerySet

from accounts.models import Project
from accounts.selectors import every_team
from scheduler.engine.snapshot import NONE, WHOLE_MILLI, floats, ints
from scheduler.models import Attempt, Device, Job, JobEvent, Pool
from scheduler.simulator.pools import ByPool
from scheduler.simulator.traces.writing import Results
from scheduler.simulator.workload import NO_LIMIT_S, Workload
from scheduler.states import EndReason, NodeState

_FIELDS = (
    "pk pool_id queued_at started_at ended_at nodes gpus_per_node time_limit_s tier preemptible "
    "min_runtime_s project__team__slug project_id gpu_milli"
).split()


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The jobs of one pool or several that were submitted in some time and have ended, and the size
    of the pools.

    Times count from the window's begin. `skipped`: jobs without GPUs, and larger than their pool;
    `parts`: jobs that asked for a part of a GPU and are taken to hold a whole one.
    `teams`: whose jobs these are, and those above them. `parents`: by row of them, that of the team
    it is below or a project of, or -1. `past`: what became of the jobs.
    """

    workload: Workload
    nodes: ByPool
    teams: tuple[str, ...]
    skipped: int
    parents: tuple[int, ...] = ()
    pools: tuple[str, ...] = ()
    past: Results | None = None
    parts: int = 0


@dataclass(slots=True)
class _Runs:
    """Of one job: all its attempts together. `undone_s`: what all but the last lost."""

    run_s: float = 0.0
    undone_s: float = 0.0
    last_lost_s: float = 0.0
    stops: int = 0
    failures: int = 0

    def add(self, run_s: float, lost_s: float) -> None:
        """The next attempt."""
        self.run_s += run_s
        self.undone_s += self.last_lost_s
        self.last_lost_s = min(lost_s, run_s)

    @property
    def work_s(self) -> float:
        """What it had to run if nobody had stopped it."""
        return max(1.0, self.run_s - self.undone_s)


@dataclass(slots=True)
class _Past:
    """What is known of jobs beside their rows."""

    runs: dict[int, _Runs] = field(default_factory=lambda: defaultdict(_Runs))
    checkpoints: Counter[int] = field(default_factory=Counter)

    def checkpoint_s(self, job: int) -> float:
        """How often it took one."""
        count = self.checkpoints[job]
        return self.runs[job].run_s / (count + 1) if count else float("inf")


def window_of(
    pools: Pool | Sequence[Pool],
    since: datetime,
    until: datetime,
    *,
    apart: Project | None = None,
    most_jobs: int | None = None,
) -> Window:
    """What ran, how long it ran, how long it might have, and for whom.

    The project `apart` is a row of its own below its team; of more than `most_jobs` the newest.
    """
    several = (pools,) if isinstance(pools, Pool) else tuple(pools)
    sizes = _sizes_of(several)
    place = {pool.pk: row for row, pool in enumerate(several)}
    ended = Job.objects.filter(
        pool__in=several,
        queued_at__gte=since,
        queued_at__lt=until,
        started_at__isnull=False,
        ended_at__isnull=False,
    )
    every = _rows(ended, place, most_jobs)
    rows = [row for row in every if _fits(row, *sizes[row["pool"]])]
    names, parents, team = _teams(rows, apart)
    past = _past_of(ended.filter(queued_at__gte=rows[0]["queued_at"])) if rows else _Past()
    is_one = len(several) == 1
    counts, per_node = zip(*sizes, strict=True)
    workload = Workload(
        gpus_per_node=per_node[0] if is_one else per_node,
        team=ints(team),
        pool=None if is_one else ints([row["pool"] for row in rows]),
        **_columns(rows, past, since),
    )
    return Window(
        workload=workload,
        nodes=counts[0] if is_one else counts,
        teams=names,
        skipped=len(every) - len(rows),
        parents=parents,
        pools=tuple(pool.name for pool in several),
        past=_results(rows, past, since),
        parts=sum(row["gpu_milli"] < WHOLE_MILLI for row in rows),
    )


def line_of(
    pool: Pool, since: datetime, until: datetime, *, most_jobs: int
) -> tuple[Workload, int]:
    """Who came into the line of a pool, the newest so many, and its nodes: also who waits or runs
    still, for as long as the limit says. Without those who left before they started."""
    came = Job.objects.filter(pool=pool, queued_at__gte=since, queued_at__lt=until)
    stayed = came.exclude(started_at=None, ended_at__isnull=False)
    rows = _rows(stayed, {pool.pk: 0}, most_jobs)
    ((nodes, per_node),) = _sizes_of([pool])
    rows = [row for row in rows if _fits(row, nodes, per_node)]
    past = _past_of(stayed.filter(queued_at__gte=rows[0]["queued_at"])) if rows else _Past()
    return Workload(gpus_per_node=per_node, **_columns(rows, past, since)), nodes


def _rows(
    jobs: QuerySet[Job], place: dict[int, int], most_jobs: int | None
) -> list[dict[str, Any]]:
    """Of the newest so many of these jobs, the oldest first; `place` is by pool."""
    asked = jobs.order_by("-queued_at", "-id").values_list(*_FIELDS)[:most_jobs]
    rows = [dict(zip(_FIELDS, row, strict=True)) for row in reversed(asked)]
    for row in rows:
        row["gpus"], row["pool"] = row["nodes"] * row["gpus_per_node"], place[row["pool_id"]]
    return rows


def _fits(row: dict[str, Any], nodes: int, per_node: int) -> bool:
    """Whether a job that asked for GPUs fits into so many nodes."""
    return bool(0 < row["gpus_per_node"] <= per_node and 0 < row["nodes"] <= nodes)


def _columns(rows: Sequence[dict[str, Any]], past: _Past, since: datetime) -> dict[str, Any]:
    """Of a workload, from these rows of jobs."""
    return {
        "submit_s": floats([(row["queued_at"] - since).total_seconds() for row in rows]),
        "run_s": floats([_work_s(row, past) for row in rows]),
        "declared_s": floats([row["time_limit_s"] for row in rows]),
        "gpus": ints([row["gpus"] for row in rows]),
        "nodes": ints([row["nodes"] for row in rows]),
        "tier": ints([row["tier"] for row in rows]),
        "checkpoint_s": floats([past.checkpoint_s(row["pk"]) for row in rows]),
        "promised_s": floats(
            [row["min_runtime_s"] if row["preemptible"] else NO_LIMIT_S for row in rows]
        ),
    }


def pools_with_gpus() -> list[Pool]:
    """By name; those of which no node has one are nothing to replay."""
    present = Device.objects.filter(is_present=True, in_service=True)
    owners = present.exclude(node__state=NodeState.RETIRED).values("node__pool")
    return list(Pool.objects.filter(pk__in=owners).order_by("name"))


def _teams(
    rows: Sequence[dict[str, Any]], apart: Project | None
) -> tuple[tuple[str, ...], tuple[int, ...], list[int]]:
    """Names and parents of the rows of teams, and the row of each job."""
    slugs = {row["project__team__slug"] for row in rows} | ({apart.team.slug} if apart else set())
    ways: dict[int, tuple[str, ...]] = {}
    for pk, slug, up in every_team():
        ways[pk] = (*(ways[up] if up else ()), slug)
    mine = [way for way in ways.values() if way[-1] in slugs]
    # In this order a team comes after those above it.
    there = sorted({way[:end] for way in mine for end in range(1, len(way) + 1)})
    row_of = {way[-1]: number for number, way in enumerate(there)}
    names = tuple(row_of)
    parents = tuple(row_of[way[-2]] if len(way) > 1 else NONE for way in there)
    team = [row_of[row["project__team__slug"]] for row in rows]
    if apart is not None:
        is_apart = [row["project_id"] == apart.pk for row in rows]
        team = [len(names) if it else had for it, had in zip(is_apart, team, strict=True)]
        parents = (*parents, row_of[apart.team.slug])
        names = (*names, apart.path)
    return names, parents, team


def _past_of(jobs: QuerySet[Job]) -> _Past:
    """Attempts and checkpoints of these jobs, in two queries."""
    found = _Past()
    attempts = Attempt.objects.filter(
        job__in=jobs, started_at__isnull=False, ended_at__isnull=False
    )
    told = attempts.order_by("job_id", "number").values_list(
        "job_id", "started_at", "ended_at", "end_facts__lost_s", "end_reason"
    )
    for job, started_at, ended_at, lost_s, reason in told:
        runs = found.runs[job]
        assert started_at is not None and ended_at is not None
        runs.add(max(0.0, (ended_at - started_at).total_seconds()), float(lost_s or 0))
        runs.stops += reason == EndReason.PREEMPTED
        runs.failures += reason == EndReason.NODE_LOST
    counted = JobEvent.objects.filter(job__in=jobs, kind="checkpoint").order_by()
    found.checkpoints.update(dict(counted.values_list("job_id").annotate(Count("id"))))
    return found


def _work_s(row: dict[str, Any], past: _Past) -> float:
    if row["ended_at"] is None:
        return max(1.0, float(row["time_limit_s"]))
    if row["pk"] in past.runs and past.runs[row["pk"]].run_s:
        return past.runs[row["pk"]].work_s
    return max(1.0, float((row["ended_at"] - row["started_at"]).total_seconds()))


def _results(rows: Sequence[dict[str, Any]], past: _Past, since: datetime) -> Results:
    """What became of these jobs: all time in which they did not run they waited."""
    start_s = [(row["started_at"] - since).total_seconds() for row in rows]
    end_s = [(row["ended_at"] - since).total_seconds() for row in rows]
    there_s = [(row["ended_at"] - row["queued_at"]).total_seconds() for row in rows]
    runs = [past.runs[row["pk"]] for row in rows]
    ran_s = [one.run_s or end - start for one, start, end in zip(runs, start_s, end_s, strict=True)]
    return Results(
        floats(start_s),
        floats(end_s),
        floats(np.maximum(0.0, np.subtract(there_s, ran_s))),
        ints([one.stops for one in runs]),
        ints([one.failures for one in runs]),
    )


def _sizes_of(pools: Iterable[Pool]) -> list[tuple[int, int]]:
    """By pool: nodes that have GPUs, and the most GPUs one of them has."""
    pools = list(pools)
    present = (
        Device.objects.filter(node__pool__in=pools, is_present=True, in_service=True)
        .exclude(node__state=NodeState.RETIRED)
        .order_by()
        .values_list("node__pool_id", "node_id")
    )
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for pool, node in present:
        counts[pool][node] += 1
    return [(len(counts[pool.pk]), max(counts[pool.pk].values(), default=1)) for pool in pools]
