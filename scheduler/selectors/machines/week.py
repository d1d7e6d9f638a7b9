"""What is booked and closed on nodes in one week, and what meets there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from accounts.models import User
from scheduler.selectors.machines.timeline import Bar, Row, week_ahead

_PLANNED = ("booking", "maintenance")


@dataclass(frozen=True, slots=True)
class Clash:
    """On a node something lies over a booking: maintenance, or a job that may still be there."""

    node: str
    booking: Bar
    other: Bar


@dataclass(frozen=True, slots=True)
class Week:
    """Nodes with bookings or maintenance in it, and the jobs that reach into bookings there.

    `nodes`: names by id of all nodes that are not retired.
    """

    rows: tuple[Row, ...]
    clashes: tuple[Clash, ...]
    nodes: Mapping[int, str]


def week_of(viewer: User, *, start: datetime, end: datetime, now: datetime) -> Week:
    """As the timeline, for who may see what; in its statements."""
    rows, clashes = [], []
    drawn = week_ahead(viewer, start=start, end=end, now=now)
    for row in drawn.rows:
        planned = [bar for bar in row.bars if bar.kind in _PLANNED]
        if not row.is_node or not planned:
            continue
        found = [
            Clash(row.name, booking, other)
            for booking in planned
            if booking.kind == "booking" and booking.end > now
            for other in _in_its_way(booking, row)
        ]
        late = [clash.other for clash in found if clash.other.kind == "running"]
        shown = sorted({*planned, *late}, key=lambda bar: (bar.start, bar.end))
        rows.append(replace(row, bars=shown))
        clashes += found
    return Week(tuple(rows), tuple(clashes), drawn.nodes)


def _in_its_way(booking: Bar, row: Row) -> list[Bar]:
    """Maintenance meanwhile, and who still runs when it begins: all of them if it is of the whole
    node, or does not fit beside them. A job of the booking itself begins inside it."""
    closed = [one for one in row.bars if one.kind == "maintenance"]
    found = [one for one in closed if one.start < booking.end and booking.start < one.end]
    running = [one for one in row.bars if one.kind == "running"]
    there = [one for one in running if one.start < booking.start < one.end]
    if booking.gpus and row.gpus - sum(one.gpus for one in there) >= booking.gpus:
        return found
    return found + there
