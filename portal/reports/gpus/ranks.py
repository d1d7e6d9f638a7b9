"""What each GPU of a job does, small and beside the others, so that the one that lags is seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from statistics import median

from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.reports.charts import device_name
from scheduler.selectors.telemetry import DeviceSeries

# Of more GPUs those that do least.
MOST_SHOWN = 64
A_ROW = 8
# The time shown, in so many steps; the figure is the mean of the last of them.
STEPS, LAST_STEPS = 12, 3
WIDE, HIGH = 44, 18
# Below so much of what half of them reach one lags; where all do little, or few are compared, none.
LAGS_BELOW, LEAST_MEDIAN, LEAST_COMPARED = 0.9, 20.0, 4


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU: `use` lately, in per cent; None where its readings do not tell it."""

    name: str
    node: str
    index: int
    use: float | None
    picture: SafeString
    lags: bool


@dataclass(frozen=True, slots=True)
class Ranks:
    """`rows`: a node, and up to eight of its GPUs; `count` of them in all, `shown` here; `lagging`:
    those more than a tenth below the `median`, where there are enough that do enough to be
    compared."""

    rows: list[tuple[str, list[Cell]]]
    shown: int
    count: int
    median: float | None
    is_compared: bool
    lagging: list[Cell]


def ranks_of(series: Sequence[DeviceSeries]) -> Ranks | None:
    """By rank; None for fewer than two GPUs, and where none has readings."""
    moments = [at for one in series for at in (one.at[:1] + one.at[-1:])]
    if len(series) < 2 or not moments:
        return None
    begin, end = min(moments), max(moments)
    steps = [(one, _steps(one, begin, end)) for one in series]
    uses = {one.uuid: _mean(found[-LAST_STEPS:]) for one, found in steps}
    told = [use for use in uses.values() if use is not None]
    middle = median(told) if told else None
    compares = middle is not None and middle >= LEAST_MEDIAN and len(told) >= LEAST_COMPARED
    limit = middle * LAGS_BELOW if compares and middle is not None else 0.0
    cells = [
        Cell(
            device_name(one), one.node, one.index, use, _drawn(found),
            lags=use is not None and use < limit,
        )
        for one, found in steps
        for use in [uses[one.uuid]]
    ]  # fmt: skip
    lagging = sorted((one for one in cells if one.lags), key=lambda one: one.use or 0.0)
    shown = _least(cells)
    return Ranks(list(_rows(shown)), len(shown), len(cells), middle, compares, lagging)


def _steps(one: DeviceSeries, begin: datetime, end: datetime) -> list[float | None]:
    """The mean of its readings in each step; None without any."""
    whole = max(1.0, (end - begin).total_seconds())
    found: list[list[float]] = [[] for _ in range(STEPS)]
    for at, value in zip(one.at, one.gpu_percent, strict=True):
        if value is not None:
            step = int((at - begin).total_seconds() / whole * STEPS)
            found[min(step, STEPS - 1)].append(value)
    return [sum(values) / len(values) if values else None for values in found]


def _mean(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) / len(told) if told else None


def _least(cells: list[Cell]) -> list[Cell]:
    """As many as are shown, in the order of all."""
    by_use = sorted(cells, key=lambda one: 0.0 if one.use is None else one.use)
    kept = {one.name for one in by_use[:MOST_SHOWN]}
    return [one for one in cells if one.name in kept]


def _rows(cells: Iterable[Cell]) -> Iterable[tuple[str, list[Cell]]]:
    for node, members in groupby(cells, key=lambda one: one.node):
        of_node = list(members)
        for first in range(0, len(of_node), A_ROW):
            yield node, of_node[first : first + A_ROW]


def _drawn(steps: Sequence[float | None]) -> SafeString:
    """A line of 0 to 100 per cent with a gap where nothing was read."""
    way, goes_on = "", False
    for number, value in enumerate(steps):
        if value is None:
            goes_on = False
            continue
        x = round(number * WIDE / (STEPS - 1))
        y = round(HIGH - 1 - min(value, 100.0) / 100 * (HIGH - 2))
        way += f"{' ' if goes_on else 'M'}{x} {y}"
        goes_on = True
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">'
        '<path d="{}"/></svg>',
        WIDE, HIGH, way,
    )  # fmt: skip
