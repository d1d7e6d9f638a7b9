"""What ran, runs and is planned where, from - to: the rows of a Gantt chart.

Names follow rights as on the map: of a job that is not for the viewer only the bar is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import Count, F, Min, OuterRef, QuerySet, TextField
from django.db.models.functions import Cast

from accounts.models import User
from accounts.models.rows import as_rows, moment_in, rows_in
from scheduler.models import Allocation, Device, Node, Pool
from scheduler.selectors.calendar.plans import Plan, may_see, plans_between
from scheduler.selectors.cluster import visible_nodes
from scheduler.selectors.inbox import calls_along, keep_calls
from scheduler.selectors.machines.spans import (
    MOST_SUMS,
    longest,
    spans_between,
    summed,
    whose_jobs,
)
from scheduler.states import NodeState

# Bars of jobs; a page holds no more than 8000 elements, and each is up to four.
MOST_BARS = 1500
MOST_RUNNING = 2000
MOST_GPUS = 200
_DEVICES = Device.objects.filter(node=OuterRef("pk"), is_present=True, in_service=True)
_BY_MODEL = _DEVICES.order_by().values_list("model").annotate(count_=Count("pk"))
_NOTHING: Mapping[str, Any] = {}
_OF_JOBS = ("past", "running", "planned")


@dataclass(frozen=True, slots=True)
class Bar:
    """`kind`: past, running (until its time limit), planned, booking or maintenance.

    `job` is its number and `words` its name only where the viewer may see it, else 0 and empty.
    `jobs`: how many a summed one stands for, from the first begin to the last end.
    """

    kind: str
    start: datetime
    end: datetime
    gpus: int = 0
    job: int = 0
    words: str = ""
    team: str = ""
    jobs: int = 0


@dataclass(slots=True)
class Row:
    """A node, a GPU (the `place`-th shown, of `node`), a team, or a pool's line of what is planned
    without a place yet. `gpus` of a node, of a week ahead: how many of the model it has fewest of.
    `is_ready`: the node takes work.
    """

    name: str
    pool: str
    is_node: bool = True
    is_team: bool = False
    node: str = ""
    place: int = 0
    gpus: int = 0
    is_ready: bool = True
    bars: list[Bar] = field(default_factory=list)


@dataclass(slots=True)
class Timeline:
    """Rows by pool and name. `nodes`: names of nodes by id, of a week ahead; `gpus`: how many there
    are where rows are GPUs."""

    rows: list[Row]
    nodes: Mapping[int, str] = field(default_factory=dict)
    gpus: int = 0


def timeline(
    viewer: User,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    pool: Pool | None = None,
    node: str = "",
    by: str = "node",
    skip: int = 0,
) -> Timeline:
    """Every bar that meets [start, end), in four statements; `by` gpu at most MOST_GPUS rows, after
    `skip` of them. What calls for the viewer comes with the nodes, for the page that shows it."""
    nodes, machines = _nodes(viewer, pool, node, with_gpus=by == "gpu")
    places = Allocation.objects.order_by()
    places = places.filter(placement__node__pool=pool) if pool is not None else places
    places = places.filter(placement__node__in=machines) if node else places
    rows, gpus = machines, 0
    if by == "gpu":
        rows, gpus = _gpus(nodes, skip)
        places = places.filter(device__in=rows)
    plans = list(plans_between(viewer, start, end, pool=pool))
    if rows:
        _add_jobs(viewer, rows, places, start, end, now, by)
    pools = {node.pool_id: node.pool.name for node in nodes}
    waiting = {pk: Row("planned", name, is_node=False) for pk, name in pools.items()}
    _add_plans(plans, rows, waiting, machines, pools)
    every = [*rows.values(), *(row for row in waiting.values() if row.bars)]
    return Timeline(_in_order(every), gpus=gpus)


def week_ahead(viewer: User, *, start: datetime, end: datetime, now: datetime) -> Timeline:
    """The same of what runs and is planned by nodes, without what is past, in three statements."""
    nodes, rows = _nodes(viewer, None, along={"models_": as_rows(_BY_MODEL, "count_")})
    for node in nodes:
        rows[node.pk].gpus = min((count for (count,) in rows_in(node.models_)), default=0)  # type: ignore[attr-defined]
    for node_id, bar in _running(viewer, start, end, now) if rows else ():
        if node_id in rows:
            rows[node_id].bars.append(bar)
    pools = {node.pool_id: node.pool.name for node in nodes}
    _add_plans(list(plans_between(viewer, start, end, jobs=False)), rows, {}, rows, pools)
    return Timeline(_in_order(list(rows.values())), {pk: row.name for pk, row in rows.items()})


def _nodes(
    viewer: User,
    pool: Pool | None,
    name: str = "",
    *,
    with_gpus: bool = False,
    along: Mapping[str, Any] = _NOTHING,
) -> tuple[list[Node], dict[int, Row]]:
    nodes = visible_nodes(viewer).only("name", "state", "pool__name")
    nodes = nodes.annotate(**calls_along(viewer), **along)
    nodes = nodes.filter(pool=pool) if pool is not None else nodes
    nodes = nodes.filter(name=name) if name else nodes
    if with_gpus:
        nodes = nodes.annotate(gpus_=as_rows(_DEVICES, "index", "slot", "id"))
    found = list(nodes)
    for node in found[:1]:
        keep_calls(viewer, node)
    return found, {
        node.pk: Row(
            node.name, node.pool.name, node=node.name, is_ready=node.state == NodeState.READY
        )
        for node in found
    }


def _gpus(nodes: list[Node], skip: int) -> tuple[dict[int, Row], int]:
    """So many rows of devices by pool, node and index, and how many there are."""
    found = []
    for node in sorted(nodes, key=lambda one: (one.pool.name, one.name)):
        its = rows_in(node.gpus_)  # type: ignore[attr-defined]
        found += sorted((index, -1 if slot is None else slot, pk, node) for index, slot, pk in its)
    rows = dict[int, Row]()
    for index, slot, pk, node in found[skip : skip + MOST_GPUS]:
        label = str(index) if slot < 0 else f"{index}.{slot + 1}"
        row = Row(f"{node.name} · {label}", node.pool.name, node=node.name, place=len(rows))
        rows[pk] = row
    return rows, len(found)


def _add_jobs(
    viewer: User,
    rows: dict[int, Row],
    places: QuerySet[Allocation],
    start: datetime,
    end: datetime,
    now: datetime,
    by: str,
) -> None:
    spans = spans_between(viewer, places, start, end, by)
    spans = spans.at(np.isin(spans.row, list(rows)))
    most = MOST_BARS if len(spans) <= MOST_BARS else MOST_BARS - MOST_SUMS
    kept, others = longest(spans, most, start, end)
    whose = whose_jobs(viewer, kept.placement.tolist())
    columns = (kept.row, kept.placement, kept.begin, kept.until, kept.gpus)
    for row, placement, begin, over, gpus in zip(*(c.tolist() for c in columns), strict=True):
        number, name, team, limit_s, started, is_seen = whose[placement]
        seen: dict[str, Any] = {}
        if is_seen:
            seen = {"job": number, "words": name, "team": team}
        since, until, kind = _moment(begin), end, "running"
        if over:
            until, kind = _moment(over), "past"
        elif limit_s:
            until = max((moment_in(started) or since) + timedelta(seconds=limit_s), now)
        rows[row].bars.append(Bar(kind, since, until, gpus, **seen))
    if by == "team":
        firsts = {row.pool: pk for pk, row in reversed(rows.items())}
        others = replace(
            others, row=np.array([firsts[rows[pk].pool] for pk in others.row.tolist()], np.int64)
        )
    for one in summed(others, start, end):
        kind, until = ("running", now) if one.is_running else ("past", _moment(one.until))
        bar = Bar(kind, _moment(one.begin), until, one.gpus, team=one.team, jobs=one.jobs)
        rows[one.row].bars.append(bar)


def _moment(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def _add_plans(
    plans: list[Plan],
    rows: dict[int, Row],
    waiting: dict[int, Row],
    machines: dict[int, Row],
    pools: dict[int, str],
) -> None:
    """On every row of its nodes, and what has no place yet on the line of its pool."""
    of_node: dict[str, list[Row]] = {}
    for row in rows.values():
        of_node.setdefault(row.node, []).append(row)
    for plan in plans:
        if plan.kind == "planned" and plan.pool in waiting:
            waiting[plan.pool].bars.append(_bar_of(plan))
        for node_id in _nodes_of(plan, machines, pools):
            for row in of_node.get(machines[node_id].name, ()) if node_id in machines else ():
                row.bars.append(_bar_of(plan))


def _in_order(every: list[Row]) -> list[Row]:
    every.sort(key=lambda row: (row.pool, not row.is_node, row.node, row.place, row.name))
    for row in every:
        row.bars.sort(key=lambda bar: (bar.start, bar.end))
    return every


def by_team(found: Timeline) -> Timeline:
    """The same bars with the teams of each pool as rows, each job once with all its GPUs.

    Teams whose jobs the viewer may not see share a row; so do bookings, and maintenance.
    """
    rows: dict[tuple[str, int, str], dict[tuple[Any, ...], Bar]] = {}
    for row in found.rows:
        for bar in row.bars:
            is_job = bar.kind in _OF_JOBS
            name = bar.team or ("other teams" if is_job else bar.kind)
            rank = 0 if bar.team else 1 if is_job else 2
            its = rows.setdefault((row.pool, rank, name), {})
            key = (bar.kind, bar.job, bar.start, bar.end, bar.words, bar.jobs)
            so_far = its[key].gpus if key in its else 0
            its[key] = replace(bar, gpus=so_far + bar.gpus)
    every = []
    for pool, rank, name in sorted(rows):
        bars = sorted(rows[pool, rank, name].values(), key=lambda bar: (bar.start, bar.end))
        every.append(Row(name, pool, is_node=False, is_team=rank == 0, bars=bars))
    return Timeline(every)


def _running(
    viewer: User, start: datetime, end: datetime, now: datetime
) -> Iterator[tuple[int, Bar]]:
    """One bar for each placement that holds devices, by node; the newest, in one statement."""
    held = Allocation.objects.filter(released_at__isnull=True, acquired_at__lt=end).order_by()
    attempt, job = "placement__attempt", "placement__attempt__job"
    says = ("placement", "placement__node", job, f"{job}__name", f"{job}__project__team__slug",
            f"{job}__time_limit_s", "started", "may_see_")  # fmt: skip
    rows = (
        held.annotate(started=_text(F(f"{attempt}__started_at")),
                      may_see_=may_see(viewer, f"{job}__project"))
        .values(*says)
        .annotate(since=_text(Min("acquired_at")), gpus=Count("id"))
        .order_by("-since", "-placement")
        .values_list("since", "gpus", *says)
    )  # fmt: skip
    for text, gpus, _, node, number, name, team, limit_s, started, is_seen in rows[:MOST_RUNNING]:
        since = moment_in(text)
        seen = {"job": number, "words": name, "team": team} if is_seen else {}
        planned = max((moment_in(started) or since) + timedelta(seconds=limit_s or 0), now)
        yield node, Bar("running", since, planned if limit_s else end, gpus, **seen)


def _text(moment: Any) -> Cast:
    """As the database writes it: there are thousands, and Django takes its time over each."""
    return Cast(moment, TextField())


def _nodes_of(plan: Plan, rows: dict[int, Row], pools: dict[int, str]) -> list[int]:
    """Where it lies; maintenance of no nodes is of all of its pool."""
    if plan.kind == "planned":
        return []
    if plan.nodes or plan.kind == "booking":
        return list(plan.nodes)
    return [pk for pk, row in rows.items() if row.pool == pools.get(plan.pool)]


def _bar_of(plan: Plan) -> Bar:
    job, team = (plan.number, plan.team) if plan.kind == "planned" else (0, "")
    return Bar(plan.kind, plan.start, plan.end, plan.gpus, job, plan.words, team)
