"""Several jobs in one chart: a line for each, over the time since its begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise

from portal.reports.charts import (
    DASHES,
    GAP_STEPS,
    MEASURES,
    VALUES_AXIS,
    Chart,
    Measure,
    TableRow,
    row_of,
)
from portal.templatetags import measures
from scheduler.selectors.machines.overlaid import RunSeries

# What is counted of a run that is no longer than this; hours of longer ones.
_UNITS = ((timedelta(minutes=3), ("seconds", 1)), (timedelta(hours=3), ("minutes", 60)))
_HOURS = ("hours", 3600)


def run_charts(series: Sequence[RunSeries], names: Mapping[int, str]) -> list[Chart]:
    """One chart for each measure; none without readings. `names` by job, as people gave them."""
    longest = max((one.at[-1] for one in series), default=timedelta())
    unit = next((unit for most, unit in _UNITS if longest <= most), _HOURS)
    titles = {one.job: f"#{one.job} {measures.plain(names[one.job])}" for one in series}
    return [_chart(measure, series, titles, unit) for measure in MEASURES] if series else []


def _chart(
    measure: Measure,
    series: Sequence[RunSeries],
    titles: Mapping[int, str],
    unit: tuple[str, int],
) -> Chart:
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": _as_text(titles[one.job]),
            "line": {"dash": DASHES[number % len(DASHES)], "width": 1.5},
            "connectgaps": False,
            "hovertemplate": f"%{{y:.0f}} {measure.unit}",
            **_points(measure, one, unit[1]),
        }
        for number, one in enumerate(series)
    ]
    title = {"text": f"{unit[0]} since it was placed", "font": {"size": 12}}
    y_axis = VALUES_AXIS if measure.top is None else {**VALUES_AXIS, "range": [0, measure.top]}
    figure = {
        "data": traces,
        "layout": {
            "xaxis": {**VALUES_AXIS, "ticklabelstandoff": 8, "title": title},
            "yaxis": y_axis,
            "showlegend": True,
            "hovermode": "x unified",
        },
    }
    told = (row_of(titles[one.job], _values(measure, one)) for one in series)
    rows = tuple(row for row in told if row is not None)
    return Chart(
        measure.key, measure.title, measure.unit, figure, _summary(measure, rows), rows, of="Job"
    )


def _as_text(name: str) -> str:
    """For Plotly, which reads some tags in a name."""
    return name.replace("&", "&amp;").replace("<", "&lt;")


def _values(measure: Measure, one: RunSeries) -> list[float | None]:
    scale = 1024 if measure.key == "memory_used_mib" else 1
    values = getattr(one, measure.key)
    return [None if value is None else round(value / scale, 2) for value in values]


def _points(measure: Measure, one: RunSeries, scale: int) -> dict[str, list[float | None]]:
    """With a gap wherever some steps have no reading: a line over it would claim some."""
    x: list[float | None] = []
    y: list[float | None] = []
    values = _values(measure, one)
    usual = sorted(b - a for a, b in pairwise(one.at))
    pause = GAP_STEPS * max(one.step, usual[len(usual) // 2] if usual else one.step)
    for number, (at, value) in enumerate(zip(one.at, values, strict=True)):
        if number and at - one.at[number - 1] > pause:
            x.append(round(at.total_seconds() / scale, 2))
            y.append(None)
        x.append(round(at.total_seconds() / scale, 2))
        y.append(value)
    return {"x": x, "y": y}


def _summary(measure: Measure, rows: Sequence[TableRow]) -> str:
    """Which of the jobs did the most and which the least of it, on average."""
    if not rows:
        return f"{measure.title}: unknown."
    most, least = max(rows, key=lambda row: row.mean), min(rows, key=lambda row: row.mean)
    said = f"{measure.title}, on average: {most.name} {most.mean:.0f} {measure.unit}"
    return (
        f"{said}." if len(rows) == 1 else f"{said}, {least.name} {least.mean:.0f} {measure.unit}."
    )
