"""The picture beside a report's table, from the same rows."""

from __future__ import annotations

from decimal import Decimal
from itertools import islice
from typing import Any

from portal.reports.books.cells import short_text
from portal.reports.charts import NAMES_AXIS, VALUES_AXIS
from portal.reports.windows import TIME_AXIS
from portal.templatetags import measures
from scheduler.selectors.books.frame import Form, Report, Sheet

_MOST_BARS = 20
_NAMED_DAYS, _DAY_MS = 7, 86_400_000
_MOST_ROWS = 5_000
_LEAST_DRAWN, _LEAST_HOURS = Decimal("0.01"), Decimal("0.0001")
_HOUR_PLACES = 4
BAR_PX, BAR_FRAME_PX = 32, 80
# Buckets of a day, from what was used to what was lost; each its own colour of the theme.
_BUCKETS = ("run", "overhead", "unreachable", "reserved_idle", "free", "drained", "down")


def report_figure(report: Report, sheet: Sheet) -> dict[str, Any] | None:
    """Bars of the largest, or a capacity month as stacked days; None where nothing is to draw."""
    if report.slug == "capacity":
        return _capacity(report, sheet)
    if report.chart is None:
        return None
    names = [column.name for column in report.columns]
    if report.stack and set(report.stack) <= set(names):
        return _stacked(report, sheet, report.chart[0])
    label, value = (names.index(name) for name in report.chart)
    team = names.index("team") if report.chart[0] == "project" else None
    is_hours = report.columns[value].form is Form.SECONDS
    sums = {key: Decimal(count) for key, count in sheet.drawn.items()}
    for row in () if sums else islice(sheet.rows(0), _MOST_ROWS):
        cell, key = row.cells[value], str(row.cells[label] or "")
        if team is not None:
            key = f"{row.cells[team]}/{key}".rstrip("/")
        if isinstance(cell, int | Decimal) and key:
            sums[key] = sums.get(key, Decimal(0)) + Decimal(cell)
    # The largest either way: what was given back counts as much as what was charged.
    largest = sorted(sums.items(), key=lambda pair: abs(pair[1]), reverse=True)[:_MOST_BARS]
    ranked = sorted(largest, key=lambda pair: pair[1], reverse=True)
    if is_hours:
        ranked = [(name, seconds / 3600) for name, seconds in ranked]
    # A bar of no length at all, such as cents of rounding, would only take room.
    least = _LEAST_HOURS if is_hours else _LEAST_DRAWN
    ranked = [(name, amount) for name, amount in ranked if abs(amount) >= least]
    if not ranked:
        return None
    unit = "GPU-h" if is_hours else f"{report.grain}s" if sheet.drawn else sheet.currency
    column = report.columns[value]
    # The title of a column of hours says so itself.
    words = unit if sheet.drawn else column.title if is_hours else f"{column.title}, {unit}"
    bars = [
        (
            measures.plain(short_text(report.chart[0], name))[:40],
            _drawn(amount, _HOUR_PLACES if is_hours else 2),
        )
        for name, amount in reversed(ranked)
    ]
    figure = _bars(bars, unit, words)
    if sheet.drawn and max(length for _, length in bars) < 4:
        # Events come whole: no tick between them.
        figure["layout"]["xaxis"]["dtick"] = 1
    return figure


def _stacked(report: Report, sheet: Sheet, label: str) -> dict[str, Any] | None:
    """Lying bars of parts, in hours, the longest at the top."""
    names = [column.name for column in report.columns]
    parts = [(report.column(name).title, names.index(name)) for name in report.stack]
    sums: dict[str, list[int]] = {}
    for row in islice(sheet.rows(0), _MOST_ROWS):
        found = sums.setdefault(str(row.cells[names.index(label)] or ""), [0] * len(parts))
        for number, (_, place) in enumerate(parts):
            cell = row.cells[place]
            found[number] += cell if isinstance(cell, int) else 0
    ranked = sorted(sums.items(), key=lambda pair: sum(pair[1]))[-_MOST_BARS:]
    if not any(sum(found) for _, found in ranked):
        return None
    figure = _bars([(measures.plain(short_text(label, name))[:40], 0.0) for name, _ in ranked],
                   "GPU-h", "GPU-h")  # fmt: skip
    (bar,) = figure["data"]
    figure["data"] = [
        {
            **bar,
            "name": title.removesuffix(" h").lower(),
            "x": [_drawn(Decimal(found[number]) / 3600, _HOUR_PLACES) for _, found in ranked],
        }
        for number, (title, _) in enumerate(parts)
        if any(found[number] for _, found in ranked)
    ]
    figure["layout"] |= {"barmode": "stack", "showlegend": len(figure["data"]) > 1}
    return figure


def _bars(bars: list[tuple[str, float]], unit: str, words: str) -> dict[str, Any]:
    """Lying bars, the first at the bottom."""
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": [length for _, length in bars],
                "y": [name for name, _ in bars],
                "hovertemplate": f"%{{x:.2f}} {unit}<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": {
                "rangemode": "tozero",
                "nticks": 4,
                "tickangle": 0,
                "title": {"text": words, "standoff": 8},
            },
            "yaxis": NAMES_AXIS,
            "showlegend": False,
            "bargap": 0.35,
            "height": BAR_FRAME_PX + BAR_PX * len(bars),
        },
    }


def _capacity(report: Report, sheet: Sheet) -> dict[str, Any] | None:
    names = [column.name for column in report.columns]
    days: dict[str, dict[str, int]] = {}
    for row in islice(sheet.rows(0), _MOST_ROWS):
        sums = days.setdefault(str(row.cells[0]), {})
        for bucket in _BUCKETS:
            cell = row.cells[names.index(f"{bucket}_gpu_seconds")]
            sums[bucket] = sums.get(bucket, 0) + (cell if isinstance(cell, int) else 0)
    if not days:
        return None
    used = [bucket for bucket in _BUCKETS if any(sums[bucket] for sums in days.values())]
    return {
        "data": [
            {
                "type": "bar",
                "name": bucket.replace("_", " "),
                "x": list(days),
                "y": [_drawn(Decimal(sums[bucket]) / 3600) for sums in days.values()],
                "hovertemplate": f"%{{y:.1f}} h {bucket.replace('_', ' ')}<extra></extra>",
            }
            for bucket in used
        ],
        "layout": {
            "barmode": "stack",
            "xaxis": _days_of(list(days)),
            "yaxis": VALUES_AXIS,
            "showlegend": len(used) > 1,
            "bargap": 0.2,
        },
    }


def _days_of(days: list[str]) -> dict[str, Any]:
    """An axis of days; where they are few each has its name, and none is cut into hours."""
    axis = {**TIME_AXIS, "hoverformat": "%-d %b %Y"}
    if len(days) > _NAMED_DAYS:
        return {**axis, "nticks": 6}
    return {**axis, "tick0": days[0], "dtick": _DAY_MS}


def _drawn(amount: Decimal, places: int = 2) -> float:
    """A length on the screen: the only place where an amount becomes a float."""
    return round(float(amount), places)
