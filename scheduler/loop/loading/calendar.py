"""Maintenance windows and bookings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import BookedNodes, Bookings, Windows, floats, ints
from scheduler.loop.loading.columns import Columns, ModelRows
from scheduler.models import Booking, Job, MaintenanceWindow, Node
from scheduler.states import OPEN_JOB_STATES


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """What is planned for nodes: tables of the snapshot by name, and rows of bookings by id.

    `in_maintenance`: nodes (ids) that are out of service for that alone. Their windows keep them,
    so beside that they count as ready: it is known when they are back.
    """

    tables: Mapping[str, Any]
    booking_row: Mapping[int, int]
    in_maintenance: frozenset[int] = frozenset()


def load_calendar(
    nodes: Columns, pool_row: Mapping[int, int], models: ModelRows, now: datetime
) -> Calendar:
    """Two queries; `nodes` as of `load_nodes`. Call it before the models are counted."""
    bookings, booked_nodes, booking_row = _load_bookings(nodes, pool_row, models, now)
    windows, drained = _load_windows(nodes, now)
    tables = {
        "windows": windows,
        "bookings": bookings,
        "booked_nodes": booked_nodes,
    }
    return Calendar(tables, booking_row, _in_maintenance(drained))


def _in_maintenance(drained: Iterable[int]) -> frozenset[int]:
    """Of the nodes that a window took out of service those that nobody else did; none, no query."""
    out = list(drained)
    if not out:
        return frozenset()
    by_itself = Node.objects.filter(pk__in=out, drain_requested_at=None)
    return frozenset(by_itself.values_list("pk", flat=True))


def _load_windows(nodes: Columns, now: datetime) -> tuple[Windows, list[int]]:
    """One row per window that is not over and node of it; and whom they took out of service."""
    planned = WINDOWS.read(now)
    # By pool, so that not every window looks at every node.
    row_of: dict[int, dict[int, int]] = {}
    for row, (node, pool) in enumerate(zip(nodes["pk"], nodes["pool_id"], strict=True)):
        row_of.setdefault(pool, {})[node] = row
    rows = [
        (pk, row, from_at.timestamp(), until_at.timestamp())
        for pk, pool, named, from_at, until_at, _ in planned
        for row in _rows_named(row_of.get(pool, {}), named)
    ]
    number, node, begin, end = list(zip(*rows, strict=True)) or [()] * 4
    drained = [node for *_, out in planned for node in out]
    return Windows(ints(number), ints(node), floats(begin), floats(end)), drained


def _rows_named(row_of: Mapping[int, int], named: Collection[int]) -> Iterable[int]:
    """The rows of these nodes of a pool, ascending; of all of them where none is named."""
    if not named:
        return row_of.values()
    return sorted({row_of[node] for node in named if node in row_of})


def _load_bookings(
    nodes: Columns, pool_row: Mapping[int, int], models: ModelRows, now: datetime
) -> tuple[Bookings, BookedNodes, dict[int, int]]:
    """Those that are planned or active, where they were so far, and their rows by id.

    And those that are over and have a job left, so that it starts nowhere else meanwhile.
    """
    node_row = {pk: row for row, pk in enumerate(nodes["pk"])}
    rows = [
        (pk, pool_row[pool], models.wanted(model), count, gpus, *_span(span), where)
        for pk, pool, model, count, gpus, where, *span in BOOKINGS.read(now)
    ]
    number, pool, model, count, gpus, begin, end, where = list(zip(*rows, strict=True)) or [()] * 8
    known = [
        (row, node_row[node]) for row, ids in enumerate(where) for node in ids if node in node_row
    ]
    booking, node = list(zip(*known, strict=True)) or [()] * 2
    return (
        Bookings(
            ints(number),
            ints(pool),
            ints(model),
            ints(count),
            ints(gpus),
            floats(begin),
            floats(end),
        ),
        BookedNodes(ints(booking), ints(node)),
        {pk: row for row, pk in enumerate(number)},
    )


def _windows_after(now: datetime) -> QuerySet[MaintenanceWindow, tuple[Any, ...]]:
    planned = MaintenanceWindow.objects.filter(until_at__gt=now, cancelled_at=None).order_by("pk")
    return planned.values_list("pk", "pool_id", "nodes", "from_at", "until_at", "drained")


def _bookings_after(now: datetime) -> QuerySet[Booking, tuple[Any, ...]]:
    left = Job.objects.filter(booked_in=OuterRef("pk"), state__in=OPEN_JOB_STATES)
    found = Booking.objects.filter(Q(until_at__gt=now, closed_as="") | Exists(left))
    what = ("pk", "pool_id", "gpu_model", "nodes", "gpus_per_node", "node_ids")
    return found.order_by("pk").values_list(*what, "from_at", "until_at", "closed_at")


WINDOWS, BOOKINGS = AskedOnce(_windows_after), AskedOnce(_bookings_after)


def _span(span: list[datetime | None]) -> tuple[float, float]:
    """From and until; what was closed before its time is over since then."""
    from_at, until_at, closed_at = span
    assert from_at is not None and until_at is not None
    if closed_at is None:
        return from_at.timestamp(), until_at.timestamp()
    begin = min(from_at, closed_at - timedelta(seconds=1))
    return begin.timestamp(), min(until_at, closed_at).timestamp()
