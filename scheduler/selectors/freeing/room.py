"""How many GPUs, or whole nodes, are free over time: as they were, and as they come free.

What was is what every device's segments say. What comes is nobody's promise: nothing new starts,
who runs ends at the time limit, or as the runs of such jobs usually do; bookings and maintenance
take what they take. Numbers alone, so everybody who is signed in is told the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    Value,
)
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce, Greatest

from accounts.models import User
from accounts.models.rows import as_rows, rows_in
from scheduler.engine.plan import rounded_up
from scheduler.ledger.segments import Bucket
from scheduler.models import Allocation, Device, MaintenanceWindow, Node, Pool
from scheduler.selectors.books.seconds import within
from scheduler.selectors.calendar.plans import Plan, plans_between
from scheduler.selectors.cluster import visible_nodes
from scheduler.selectors.freeing.emptying import Emptying, Holder, emptying
from scheduler.states import DeviceHealth, NodeState

# Moments at which it is looked at, at most: as fine as a picture shows.
MOMENTS = 240
_WORDS = ("latest", "likely")
_OUT = (NodeState.DRAINING, NodeState.DRAINED)
Counts = npt.NDArray[np.int64]
# A moment, and how many are free then.
Point = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class PoolRoom:
    """Of one pool, by moment: `past` up to now, then what is free at the `latest` and `likely`.
    `total`: all of its nodes, or GPUs in service."""

    pool: str
    total: int
    past: list[Point]
    latest: list[Point]
    likely: list[Point]


def room_over_time(
    viewer: User,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    pool: Pool | None = None,
    whole_nodes: bool = False,
    is_exact: bool = False,
) -> list[PoolRoom]:
    """By pool that has nodes, by name, GPUs or whole nodes; six statements at most. `is_exact`:
    what comes is told at each moment at which more is free too, rounded up as a forecast is."""
    cells = _Cells.of(viewer, pool)
    step_s = max(1, -(-int((end - start).total_seconds()) // MOMENTS))
    first_s = int(start.timestamp())
    every = [first_s + number * step_s for number in range(MOMENTS + 1)]
    moments = [datetime.fromtimestamp(at, UTC) for at in every]
    was, will = [at for at in moments if at < now], [at for at in moments if at >= now]
    will = [now, *will] if will else []
    coming = _Coming.of(viewer, cells, now, will[-1]) if will else None
    if coming is not None and is_exact:
        will = coming.moments(will)
    past = _as_it_was(cells, first_s, step_s, len(was)) if was else _Free.nothing(cells, 0)
    ahead = coming.free_at(will) if coming is not None else {}
    past_by = cells.by_pool(past.nodes() if whole_nodes else past.gpus)
    counts = {
        word: cells.by_pool(free.nodes() if whole_nodes else free.gpus)
        for word, free in ahead.items()
    }
    totals = cells.by_pool(np.minimum(cells.total, 1) if whole_nodes else cells.total)

    def points(at: Sequence[datetime], table: Counts, row: int) -> list[Point]:
        return list(zip(at, table[row].tolist(), strict=True))

    return [
        PoolRoom(
            name,
            int(totals[row, 0]),
            points(was, past_by, row),
            *(points(will, counts[word], row) if will else [] for word in _WORDS),
        )
        for row, name in enumerate(cells.pools)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Nodes as rows; `total`, `in_order` and `free` now: GPUs of each, in one column."""

    nodes: list[Node]
    row_of: Mapping[int, int]
    pools: list[str]
    pool_of: Counts
    total: Counts
    in_order: Counts
    free: Counts

    @classmethod
    def of(cls, viewer: User, pool: Pool | None) -> _Cells:
        """One statement, and one while nodes are out of service."""
        held = Exists(Allocation.objects.filter(device=OuterRef("pk"), released_at__isnull=True))
        is_well = Q(health__in=(DeviceHealth.HEALTHY, DeviceHealth.SUSPECT))
        devices = Device.objects.filter(node=OuterRef("pk"), is_present=True, in_service=True)
        counted = (
            devices.annotate(well_=ExpressionWrapper(is_well, output_field=BooleanField()))
            .order_by()
            .values_list("well_")
            # Held is counted and not grouped by, for which SQLite looks twice.
            .annotate(count_=Count("pk"), held_=Count("pk", filter=held))
        )
        nodes = visible_nodes(viewer).only("name", "state", "drain_requested_at", "pool__name")
        nodes = nodes.filter(pool=pool) if pool is not None else nodes
        found = list(nodes.annotate(gpus_=as_rows(counted, "well_", "count_", "held_")))
        pools = sorted({node.pool.name for node in found})
        out = [node.pk for node in found if node.state in _OUT and not node.drain_requested_at]
        # It is known when they are back, and what is planned says so.
        back = _taken_by_windows().intersection(out) if out else set()
        table = np.zeros((3, len(found), 1), dtype=np.int64)
        for row, node in enumerate(found):
            takes_work = node.state == NodeState.READY or node.pk in back
            for is_fine, count, held_now in rows_in(node.gpus_):
                in_order, free = (count, count - held_now) if is_fine and takes_work else (0, 0)
                table[:, row, 0] += (count, in_order, free)
        return cls(
            list[Node](found),
            {node.pk: row for row, node in enumerate(found)},
            pools,
            np.array([pools.index(node.pool.name) for node in found], dtype=np.int64),
            *table,
        )

    def by_pool(self, table: Counts) -> Counts:
        """Nodes x moments as pools x moments."""
        sums = np.zeros((len(self.pools), table.shape[1]), dtype=np.int64)
        np.add.at(sums, self.pool_of, table)
        return sums


def _taken_by_windows() -> set[int]:
    """Ids of nodes that maintenance took out of service, until it gives them back."""
    open_now = MaintenanceWindow.objects.filter(begun_at__isnull=False, ended_at=None)
    return {node for drained in open_now.values_list("drained", flat=True) for node in drained}


@dataclass(frozen=True, slots=True, eq=False)
class _Free:
    """Free GPUs by node and moment, and the others that are in service then."""

    gpus: Counts
    others: Counts

    @classmethod
    def nothing(cls, cells: _Cells, moments: int) -> _Free:
        shape = (len(cells.nodes), moments)
        return cls(np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64))

    def nodes(self) -> Counts:
        """1 where all of a node is free."""
        return ((self.gpus > 0) & (self.others == 0)).astype(np.int64)


def _as_it_was(cells: _Cells, first_s: int, step_s: int, moments: int) -> _Free:
    """By segments, put into steps by the database: from the first moment at which each is there to
    the first at which it is no more. One statement."""
    last_s = first_s + (moments - 1) * step_s

    def moment_from(second: F | Coalesce) -> CombinedExpression:
        return (Greatest(second - first_s, Value(0)) + step_s - 1) / step_s

    rows = (
        within(first_s, last_s + 1)
        .filter(device__node__in=[node.pk for node in cells.nodes])
        .exclude(bucket=Bucket.OUT)
        .order_by()
        .annotate(
            is_free_=ExpressionWrapper(Q(bucket=Bucket.FREE), output_field=BooleanField()),
            begin_=moment_from(F("start_s")),
            over_=moment_from(Coalesce("end_s", Value(last_s + step_s))),
        )
        .values_list("device__node", "is_free_", "begin_", "over_")
        .annotate(count_=Count("pk"))
    )
    steps = np.zeros((2, len(cells.nodes), moments + 1), dtype=np.int64)
    for node, is_free, begin, over, count in rows:
        if begin < min(over, moments):
            here = steps[0 if is_free else 1, cells.row_of[node]]
            here[begin] += count
            here[min(over, moments)] -= count
    return _Free(*np.cumsum(steps, axis=2)[:, :, :-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Coming:
    """Who holds what of the nodes until when, and what is planned there."""

    cells: _Cells
    now: datetime
    ends: Mapping[int, Emptying]
    plans: list[Plan]

    @classmethod
    def of(cls, viewer: User, cells: _Cells, now: datetime, last: datetime) -> _Coming:
        """Three statements and what the viewer's rights take."""
        ends = emptying(viewer, cells.nodes, now=now)
        return cls(cells, now, ends, list(plans_between(viewer, now, last, jobs=False)))

    def moments(self, known: Sequence[datetime]) -> list[datetime]:
        """These, and between them those at which more is free, as a forecast says them."""
        now_s = self.now.timestamp()
        changes = {plan.end.timestamp() for plan in self.plans}
        for node in self.ends.values():
            changes.update(end for word in _WORDS for end, _ in _gives_back(node, word))
        ahead = [at for at in changes if at > now_s]
        rounded = set(rounded_up(np.array(ahead, dtype=np.float64), now_s).tolist())
        more = {datetime.fromtimestamp(at, UTC) for at in rounded}
        return sorted({*known, *(at for at in more if at < known[-1])})

    def free_at(self, moments: Sequence[datetime]) -> dict[str, _Free]:
        """By word: if nothing new starts. The moments are in order."""
        cells, seconds = self.cells, [moment.timestamp() for moment in moments]
        at, found = np.array(seconds), {}
        for word in _WORDS:
            free = np.repeat(cells.free, len(at), axis=1)
            inside: dict[tuple[int, int | None], Counts] = {}
            for row, node in enumerate(cells.nodes):
                for end_s, holder in _gives_back(self.ends[node.pk], word):
                    then = bisect_left(seconds, end_s)
                    free[row, then:] += holder.gpus
                    if holder.booking is not None:
                        here = inside.setdefault((row, holder.booking), np.zeros(len(at), np.int64))
                        here[:then] += holder.gpus
            free = np.minimum(free, cells.in_order)
            for rows, plan, first, last in _taken(self.plans, cells, at):
                if not plan.gpus:
                    free[rows, first:last] = 0
                    continue
                free[rows, first:last] -= plan.gpus
                for row in rows:
                    # What its own jobs hold of it is off already.
                    if (own := inside.get((row, plan.number))) is not None:
                        free[row, first:last] += np.minimum(own[first:last], plan.gpus)
            free = np.maximum(free, 0)
            found[word] = _Free(free, cells.total - free)
        return found


def _gives_back(node: Emptying, word: str) -> Iterable[tuple[float, Holder]]:
    for holder in node.holders:
        end = holder.likely if word == "likely" else None
        yield (end or holder.latest).timestamp(), holder


def _taken(
    plans: Iterable[Plan], cells: _Cells, at: npt.NDArray[np.float64]
) -> Iterable[tuple[list[int], Plan, int, int]]:
    """Rows of nodes, what lies there (0 GPUs: all), and from which moment to which."""
    pools = np.array([node.pool_id for node in cells.nodes], dtype=np.int64)
    for plan in plans:
        rows = [cells.row_of[node] for node in plan.nodes if node in cells.row_of]
        if plan.kind == "maintenance" and not plan.nodes:
            rows = np.flatnonzero(pools == plan.pool).tolist()
        first, last = np.searchsorted(at, [plan.start.timestamp(), plan.end.timestamp()])
        if rows and first < last:
            yield rows, plan, int(first), int(last)
