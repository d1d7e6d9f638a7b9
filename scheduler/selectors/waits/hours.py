"""How long jobs waited for a pool, when its line is longest, and what forecasts were worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from accounts.models import User
from scheduler.models import Pool, PoolHour
from scheduler.selectors.waits.buckets import quantile

WINDOW = timedelta(days=28)
HOUR = timedelta(hours=1)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Upper ends in seconds of the steps of the map's ramp; the last step has none.
STEPS_S = (60, 600, 3600, 4 * 3600, 12 * 3600)


@dataclass(frozen=True, slots=True)
class Waits:
    """Of jobs that started within a time: p50 and p90 of what they had waited, None of none."""

    started: int
    p50_s: float | None
    p90_s: float | None


@dataclass(frozen=True, slots=True)
class HourCell:
    """An hour of the week: jobs submitted and started in it, the median wait of the latter.

    `step`: of the ramp, from 0; -1 where nobody started.
    """

    day: int
    hour: int
    submitted: int
    started: int
    p50_s: float | None
    step: int


@dataclass(frozen=True, slots=True)
class WaitHistory:
    """What the hours of a pool say. `told` started after being told when, of the last 28 days.

    `cells` are in order of day and hour, seven times 24; `by_day` has each day of the window, the
    oldest first, the last one as far as it goes. `until`: the end of the last whole hour.
    """

    until: datetime
    day: Waits
    week: Waits
    told: int
    within_p50: float | None
    within_p90: float | None
    cells: tuple[HourCell, ...]
    by_day: tuple[tuple[date, Waits], ...] = ()

    @property
    def days(self) -> list[tuple[str, tuple[HourCell, ...]]]:
        """Each day with its cells."""
        return [(name, self.cells[24 * at : 24 * at + 24]) for at, name in enumerate(DAYS)]


def wait_history(viewer: User, pool: Pool, *, zone: tzinfo) -> WaitHistory | None:
    """By weekday and hour of `zone`; None before the first whole hour. One query.

    Sums alone, so every signed-in person may see it.
    """
    if not viewer.is_authenticated:
        return None
    newest = PoolHour.objects.filter(pool=pool).order_by("-hour")
    rows = list(newest[: int(WINDOW / HOUR)])
    if not rows:
        return None
    until = rows[0].hour + HOUR
    rows = [row for row in rows if row.hour >= until - WINDOW]
    told = sum(row.told for row in rows)
    return WaitHistory(
        until,
        _waits(row for row in rows if row.hour >= until - timedelta(days=1)),
        _waits(row for row in rows if row.hour >= until - timedelta(days=7)),
        told,
        sum(row.within_p50 for row in rows) / told if told else None,
        sum(row.within_p90 for row in rows) / told if told else None,
        _cells(rows, zone),
        _by_day(rows, zone),
    )


def _by_day(rows: Sequence[PoolHour], zone: tzinfo) -> tuple[tuple[date, Waits], ...]:
    days: dict[date, list[PoolHour]] = {}
    for row in rows:
        days.setdefault(row.hour.astimezone(zone).date(), []).append(row)
    return tuple((day, _waits(days[day])) for day in sorted(days))


def _waits(rows: Iterable[PoolHour]) -> Waits:
    rows = list(rows)
    counts = [row.waits for row in rows]
    return Waits(sum(row.started for row in rows), quantile(counts, 0.5), quantile(counts, 0.9))


def _cells(rows: Sequence[PoolHour], zone: tzinfo) -> tuple[HourCell, ...]:
    by_cell: dict[tuple[int, int], list[PoolHour]] = {}
    for row in rows:
        at = row.hour.astimezone(zone)
        by_cell.setdefault((at.weekday(), at.hour), []).append(row)
    return tuple(
        _cell(day, hour, by_cell.get((day, hour), ())) for day in range(7) for hour in range(24)
    )


def _cell(day: int, hour: int, rows: Sequence[PoolHour]) -> HourCell:
    p50_s = quantile((row.waits for row in rows), 0.5)
    step = -1 if p50_s is None else sum(p50_s > end for end in STEPS_S)
    submitted, started = sum(row.submitted for row in rows), sum(row.started for row in rows)
    return HourCell(day, hour, submitted, started, p50_s, step)
