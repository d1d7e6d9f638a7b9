"""Rows to figures: plain dictionaries in Plotly's own JSON form, drawn by static/js/charts.js.

The figures are written by hand: the Python library is large, and nothing of it is needed to say
which points lie where. Colours are the page's business (charts.js reads the tokens); the dash
tells lines apart without colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any

from django.utils import timezone

from portal.reports.windows import TIME_AXIS, WHOLE_FIGURES
from portal.templatetags import measures
from scheduler.selectors.machines.hosts import HostSeries
from scheduler.selectors.telemetry import FULL, DeviceSeries

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MAX_TRACES = FULL
LATELY = timedelta(minutes=1)
# With more, the legend would take the room of the chart; hovering and the table name each line.
LEGEND_AT_MOST = 2
# A pause this long is drawn as a gap; a straight line over it would claim readings.
GAP = timedelta(seconds=45)
GAP_STEPS = 4
BAR_PX, BAR_FRAME_PX = 28, 72
# Off the corner, where the first words of both axes would touch; so is `TIME_AXIS`.
VALUES_AXIS = {"rangemode": "tozero", "nticks": 5, "ticklabelstandoff": 6, **WHOLE_FIGURES}
NAMES_AXIS = {"type": "category", "automargin": True, "dtick": 1, "ticklabelstandoff": 6}
# Measure → UUID → x and y.
Points = dict[str, dict[str, dict[str, list[Any]]]]


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that is read from a device. `top` fixes the upper end of its axis."""

    key: str
    title: str
    unit: str
    top: float | None = None


MEASURES = (
    Measure("gpu_percent", "GPU use", "%", 100),
    Measure("memory_used_mib", "GPU memory", "GiB"),
    Measure("power_watts", "Power", "W"),
    Measure("temperature_c", "Temperature", "°C"),
)


@dataclass(frozen=True, slots=True)
class TableRow:
    """The twin of one trace: smallest, mean, largest and last reading that tells it, in the
    chart's unit."""

    name: str
    is_simulated: bool
    low: float
    mean: float
    high: float
    last: float
    readings: int


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its words: `summary` for those who do not see it, `rows` for the table,
    each `of` one such thing."""

    key: str
    title: str
    unit: str
    figure: dict[str, Any]
    summary: str
    rows: tuple[TableRow, ...]
    of: str = "GPU"


HOST_MEASURES = (
    Measure("host_cpu_percent", "CPU use of the node", "%", 100),
    Measure("host_memory_mib", "Memory used on the node", "GiB"),
    Measure("host_scratch_mib", "Scratch disk left on the node", "GiB"),
)


def device_name(series: DeviceSeries) -> str:
    """How a trace is called: rank first where there is one."""
    return f"{_rank(series)}{series.node} GPU {series.index}"


def _rank(series: DeviceSeries | HostSeries) -> str:
    return f"rank {series.rank} · " if series.rank is not None else ""


def _name(series: DeviceSeries | HostSeries) -> str:
    if isinstance(series, DeviceSeries):
        return device_name(series)
    return f"{_rank(series)}{series.node}"


def device_charts(series: Sequence[DeviceSeries]) -> list[Chart]:
    """One chart for each measure, at most eight lines; further devices are in the tables."""
    return [_chart(measure, series) for measure in MEASURES]


def host_charts(series: Sequence[HostSeries]) -> list[Chart]:
    """One chart for each measure of nodes."""
    return [_chart(measure, series, "Node") for measure in HOST_MEASURES]


def device_points(series: Sequence[DeviceSeries]) -> Points:
    """New points only: measure → device UUID → x and y, for charts that are already drawn."""
    return _points(MEASURES, series)


def host_points(series: Sequence[HostSeries]) -> Points:
    """The same for the charts of nodes."""
    return _points(HOST_MEASURES, series)


def _points(measures: Iterable[Measure], series: Sequence[DeviceSeries | HostSeries]) -> Points:
    return {
        measure.key: {
            one.uuid: {"x": [stamp(at) for at in one.at], "y": _values(measure, one)}
            for one in series[:MAX_TRACES]
        }
        for measure in measures
    }


def latest(series: Sequence[DeviceSeries | HostSeries]) -> datetime | None:
    """The time of the newest reading."""
    return max((one.at[-1] for one in series if one.at), default=None)


def mean_use(series: Sequence[DeviceSeries]) -> float | None:
    """GPU use in the last minute of the readings, the mean of all devices, in per cent; None
    without readings that tell it.
    """
    newest = latest(series)
    if newest is None:
        return None
    means = []
    for one in series:
        pairs = zip(reversed(one.at), reversed(one.gpu_percent), strict=True)
        values = (value for _, value in takewhile(lambda x: newest - x[0] < LATELY, pairs))
        if lately := [value for value in values if value is not None]:
            means.append(sum(lately) / len(lately))
    return sum(means) / len(means) if means else None


@dataclass(frozen=True, slots=True)
class Slowed:
    """One GPU: in how many per cent of what was read of it."""

    name: str
    is_simulated: bool
    by_heat: float
    by_power: float


def slowed_of(series: Sequence[DeviceSeries]) -> list[Slowed]:
    """Those that were slowed down at all, the hottest first."""
    means = [(one, _mean(one.slowed_by_heat), _mean(one.slowed_by_power)) for one in series]
    found = (
        Slowed(device_name(one), one.is_simulated, by_heat, by_power)
        for one, by_heat, by_power in means
        if by_heat or by_power
    )
    return sorted(found, key=lambda one: (-one.by_heat, -one.by_power))


def _mean(values: Sequence[int | None]) -> float:
    told = [value for value in values if value is not None]
    return sum(told) / len(told) if told else 0.0


def _chart(measure: Measure, series: Sequence[DeviceSeries | HostSeries], of: str = "GPU") -> Chart:
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": _name(one),
            "uid": one.uuid,
            "meta": one.uuid,
            "line": {"dash": DASHES[number % len(DASHES)], "width": 1.5},
            "connectgaps": False,
            "hovertemplate": f"%{{y:.0f}} {measure.unit}",
            **_with_gaps(one.at, _values(measure, one)),
        }
        for number, one in enumerate(series[:MAX_TRACES])
    ]
    y_axis = VALUES_AXIS if measure.top is None else {**VALUES_AXIS, "range": [0, measure.top]}
    told = (
        row_of(_name(one), _values(measure, one), is_simulated=one.is_simulated) for one in series
    )
    rows = tuple(row for row in told if row is not None)
    figure = {
        "data": traces,
        "layout": {
            "xaxis": TIME_AXIS,
            "yaxis": y_axis,
            "showlegend": 1 < len(traces) <= LEGEND_AT_MOST,
            "hovermode": "x unified",
        },
    }
    summary = _summary(measure, rows, series, of)
    return Chart(measure.key, measure.title, measure.unit, figure, summary, rows, of)


def _values(measure: Measure, one: DeviceSeries | HostSeries) -> list[float | None]:
    values = getattr(one, measure.key)
    if measure.unit == "GiB":
        return [round(value / 1024, 2) for value in values]
    return [None if value is None else round(float(value), 1) for value in values]


def _with_gaps(at: Sequence[datetime], values: Sequence[float | None]) -> dict[str, list[Any]]:
    x: list[str] = []
    y: list[float | None] = []
    steps = sorted(b - a for a, b in pairwise(at))
    pause = max(GAP, GAP_STEPS * steps[len(steps) // 2]) if steps else GAP
    for number, moment in enumerate(at):
        if number and moment - at[number - 1] > pause:
            x.append(stamp(moment - timedelta(seconds=1)))
            y.append(None)
        x.append(stamp(moment))
        y.append(values[number])
    return {"x": x, "y": y}


def stamp(moment: datetime) -> str:
    """A place on the axis of time, in the zone of the page: Plotly draws what the text says."""
    return timezone.localtime(moment).strftime("%Y-%m-%dT%H:%M:%S.%f")


def row_of(
    name: str, values: Sequence[float | None], *, is_simulated: bool = False
) -> TableRow | None:
    """None where no value is told."""
    told = [value for value in values if value is not None]
    if not told:
        return None
    mean = sum(told) / len(told)
    return TableRow(name, is_simulated, min(told), mean, max(told), told[-1], len(told))


def _several(of: str, count: int) -> str:
    word = of if of.isupper() else of.lower()
    return word if count == 1 else f"{word}s"


def _summary(
    measure: Measure,
    rows: Sequence[TableRow],
    series: Sequence[DeviceSeries | HostSeries],
    of: str,
) -> str:
    if not rows:
        is_read = any(one.at for one in series)
        return f"{measure.title}: {'unknown' if is_read else 'no readings yet'}."
    low = min(row.low for row in rows)
    high = max(row.high for row in rows)
    mean = sum(row.mean for row in rows) / len(rows)
    count = len(series)
    shown = f", {MAX_TRACES} of {count} drawn" if count > MAX_TRACES else ""
    return (
        f"{measure.title} of {len(rows)} {_several(of, len(rows))}{shown}: between "
        f"{low:.0f} and {high:.0f} {measure.unit}, on average {mean:.0f} {measure.unit}."
    )


def cost_chart(rows: Sequence[tuple[str, float]], currency: str) -> dict[str, Any]:
    """A horizontal bar for each row, dearest on top; names lose what could turn their direction."""
    shown = list(reversed(rows[:20]))
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": [round(cost, 2) for _, cost in shown],
                "y": [measures.plain(name) for name, _ in shown],
                "hovertemplate": f"%{{x:.2f}} {currency}<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": {"rangemode": "tozero", "nticks": 6, "tickangle": 0, **WHOLE_FIGURES},
            "yaxis": NAMES_AXIS,
            "showlegend": False,
            "bargap": 0.35,
            "height": BAR_FRAME_PX + BAR_PX * len(shown),
        },
    }
