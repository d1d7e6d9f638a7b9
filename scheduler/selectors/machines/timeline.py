"""What ran, runs and is planned where, from - to: the rows of a Gantt chart.

Names follow rights as on the map: of a job that is not for the viewer only the bar is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, F, Max, Min, Q, QuerySet, TextField
from django.db.models.functions import Cast

from accounts.models import User
from accounts.models.rows import moment_in
from scheduler.models import Allocation, Pool
from scheduler.selectors.calendar.plans import Plan, may_see, plans_between
from scheduler.selectors.cluster import visible_nodes
from scheduler.selectors.inbox import calls_along, keep_calls

MOST_BARS = 2000
_OF_JOBS = ("past", "running", "planned")


@dataclass(frozen=True, slots=True)
class Bar:
    """`kind`: past, running (until its time limit), planned, booking or maintenance.

    `job` is its number and `words` its name only where the viewer may see it, else 0 and empty.
    """

    kind: str
    start: datetime
    end: datetime
    gpus: int = 0
    job: int = 0
    words: str = ""
    team: str = ""


@dataclass(slots=True)
class Row:
    """A node, a team, or a pool's line of what is planned without a place yet."""

    name: str
    pool: str
    is_node: bool = True
    is_team: bool = False
    bars: list[Bar] = field(default_factory=list)


@dataclass(slots=True)
class Timeline:
    """Rows by pool and name; `is_cut`: jobs have more bars than are drawn, the newest are kept.

    `nodes`: names of nodes by id, those with a row.
    """

    rows: list[Row]
    is_cut: bool = False
    nodes: Mapping[int, str] = field(default_factory=dict)


def timeline(
    viewer: User,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    pool: Pool | None = None,
    with_past: bool = True,
) -> Timeline:
    """Every bar that meets [start, end), in three statements; what calls for the viewer comes with
    the nodes, for the page that shows it."""
    nodes = visible_nodes(viewer).only("name", "pool__name").annotate(**calls_along(viewer))
    nodes = nodes.filter(pool=pool) if pool is not None else nodes
    rows = {node.pk: Row(node.name, node.pool.name) for node in nodes}
    pools = {node.pool_id: node.pool.name for node in nodes}
    places = Allocation.objects.order_by()
    places = places.filter(placement__node__pool=pool) if pool is not None else places
    for node in nodes[:1]:
        keep_calls(viewer, node)
    found = list(_job_bars(viewer, places, start, end, now, with_past)) if rows else []
    for node_id, bar in found[:MOST_BARS]:
        if node_id in rows:
            rows[node_id].bars.append(bar)
    waiting = {pk: Row("planned", name, is_node=False) for pk, name in pools.items()}
    for plan in plans_between(viewer, start, end):
        if plan.kind == "planned" and plan.pool in waiting:
            waiting[plan.pool].bars.append(_bar_of(plan))
        for node_id in _nodes_of(plan, rows, pools):
            if node_id in rows:
                rows[node_id].bars.append(_bar_of(plan))
    every = [*rows.values(), *(row for row in waiting.values() if row.bars)]
    every.sort(key=lambda row: (row.pool, not row.is_node, row.name))
    for row in every:
        row.bars.sort(key=lambda bar: (bar.start, bar.end))
    names = {pk: row.name for pk, row in rows.items()}
    return Timeline(every, len(found) > MOST_BARS, names)


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
            key = (bar.kind, bar.job, bar.start, bar.end, bar.words)
            so_far = its[key].gpus if key in its else 0
            its[key] = replace(bar, gpus=so_far + bar.gpus)
    every = [
        Row(
            name,
            pool,
            is_node=False,
            is_team=rank == 0,
            bars=sorted(rows[pool, rank, name].values(), key=lambda bar: (bar.start, bar.end)),
        )
        for pool, rank, name in sorted(rows)
    ]
    return Timeline(every, found.is_cut)


def _job_bars(
    viewer: User,
    places: QuerySet[Allocation],
    start: datetime,
    end: datetime,
    now: datetime,
    with_past: bool,
) -> Iterator[tuple[int, Bar]]:
    """One bar for each placement, newest first, one more than are drawn at most."""
    rows = [
        (moment_in(since), placement, *row)
        for placement, since, *row in _rows_of(viewer, places, start, end, with_past)
    ]
    rows.sort(key=lambda row: row[:2], reverse=True)
    for since, _, until, node, number, name, team, limit_s, started, is_seen, gpus, left in rows:
        seen: dict[str, Any] = {}
        if is_seen:
            seen = {"job": number, "words": name, "team": team}
        if left:
            planned = max((moment_in(started) or since) + timedelta(seconds=limit_s or 0), now)
            yield node, Bar("running", since, planned if limit_s else end, gpus, **seen)
        else:
            yield node, Bar("past", since, moment_in(until), gpus, **seen)


def _rows_of(
    viewer: User, places: QuerySet[Allocation], start: datetime, end: datetime, with_past: bool
) -> QuerySet[Allocation, Any]:
    """Of the newest placements: number, since and until when it holds devices (texts), and what
    else a bar says."""
    met, meets = places.filter(released_at__isnull=True).values("pk"), Q(released_at__isnull=True)
    if with_past:
        # Not by OR, for which SQLite reads the whole table, years of it.
        met = met.union(places.filter(released_at__gt=start).values("pk"), all=True)
        meets |= Q(released_at__gt=start)
    # Which are drawn is settled before anything is joined.
    begun = places.filter(pk__in=met, acquired_at__lt=end).values("placement")
    newest = begun.annotate(since=Min("acquired_at")).order_by("-since", "-placement")
    # Met again as they are counted: as a condition SQLite would look for all of them once more.
    meets &= Q(acquired_at__lt=end)
    left = Count("id", filter=Q(released_at__isnull=True, acquired_at__lt=end))
    attempt, job = "placement__attempt", "placement__attempt__job"
    says = ("placement", "placement__node", job, f"{job}__name", f"{job}__project__team__slug",
            f"{job}__time_limit_s", "started", "may_see_")  # fmt: skip
    return (
        places.filter(placement__in=newest.values("placement")[: MOST_BARS + 1])
        .annotate(started=_text(F(f"{attempt}__started_at")),
                  may_see_=may_see(viewer, f"{job}__project"))
        .values(*says)
        .annotate(since=_text(Min("acquired_at", filter=meets)),
                  until=_text(Max("released_at", filter=meets)),
                  gpus=Count("id", filter=meets), left=left)
        .values_list("placement", "since", "until", *says[1:], "gpus", "left")
    )  # fmt: skip


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
