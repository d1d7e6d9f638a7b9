"""Bars as figures in Plotly's own form: lying by name with marks across, upright along time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from portal.reports.charts import NAMES_AXIS, VALUES_AXIS
from portal.reports.windows import TIME_AXIS, WHOLE_FIGURES
from scheduler.ledger.exact import ZERO

BAR_PX, BAR_FRAME_PX, LEGEND_PX = 32, 80, 24
_NAMED_DAYS, _DAY_MS = 7, 86_400_000
# Higher than a bar, so that it is seen before it, within it and beyond it.
_MARKS: tuple[dict[str, Any], ...] = (
    {"symbol": "line-ns-open", "size": 20, "line": {"width": 3}},
    {"symbol": "diamond", "size": 10, "line": {"width": 2}},
)
# Plotly itself would tell parts from the last to the first.
_LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}


@dataclass(frozen=True, slots=True)
class Bar:
    """`words` names it, `lengths` are its parts and marks; None draws nothing."""

    key: str
    words: str
    lengths: Sequence[Decimal | None]

    def far(self, number: int) -> Decimal:
        """How far one of its lengths goes, either way."""
        return abs(self.lengths[number] or ZERO)

    def size(self, parts: int) -> Decimal:
        """What its parts come to."""
        return sum((length or ZERO for length in self.lengths[:parts]), ZERO)

    def weight(self, parts: int) -> tuple[Decimal, Decimal]:
        """How much it counts, either way."""
        return abs(self.size(parts)), self._furthest(parts)

    def order(self, parts: int) -> tuple[Decimal, Decimal]:
        """Where it stands, from the foot up."""
        return self.size(parts), self._furthest(parts)

    def _furthest(self, parts: int) -> Decimal:
        return max(map(self.far, range(parts, len(self.lengths))), default=ZERO)


@dataclass(frozen=True, slots=True)
class Part:
    """Which of a bar's lengths, its name and decimals; `mark`: which of the marks it is, if one."""

    number: int
    title: str
    places: int
    mark: int | None = None

    @property
    def least(self) -> Decimal:
        """What is shorter has no length on a screen."""
        return Decimal(1).scaleb(-self.places)


def lying(bars: Sequence[Bar], parts: Sequence[Part], unit: str) -> dict[str, Any]:
    """The first at the bottom."""
    names = [bar.words for bar in bars]
    data = [{**_trace(bars, part, unit, "x", "y", names), **_look(part)} for part in parts]
    has_legend = len(parts) > 1
    # One part alone is named by its axis.
    words = ", ".join(filter(None, (*(() if has_legend else (parts[0].title,)), unit)))
    axis = {"rangemode": "tozero", "nticks": 4, "tickangle": 0, **WHOLE_FIGURES}
    if not any(part.places for part in parts) and _longest(bars) < 4:
        # What comes whole has no tick between.
        axis["dtick"] = 1
    return {
        "data": data,
        "layout": {
            "barmode": "relative",
            "xaxis": {**axis, "title": {"text": words, "standoff": 8}},
            "yaxis": NAMES_AXIS,
            "showlegend": has_legend,
            "legend": _LEGEND,
            "bargap": 0.35,
            "height": BAR_FRAME_PX + BAR_PX * len(bars) + LEGEND_PX * has_legend,
        },
    }


def upright(
    bars: Sequence[Bar], parts: Sequence[Part], unit: str, *, is_days: bool
) -> dict[str, Any]:
    """From left to right in order of time."""
    names = [bar.key for bar in bars]
    names_axis = {"type": "category", "nticks": 6, "tickangle": 0, "ticklabelstandoff": 6}
    return {
        "data": [_trace(bars, part, unit, "y", "x", names) for part in parts],
        "layout": {
            "barmode": "relative",
            "xaxis": _days_of(names) if is_days else names_axis,
            "yaxis": VALUES_AXIS,
            "showlegend": len(parts) > 1,
            "legend": _LEGEND,
            "bargap": 0.2,
        },
    }


def _look(part: Part) -> dict[str, Any]:
    if part.mark is None:
        return {"orientation": "h"}
    look = {"marker": _MARKS[part.mark], "cliponaxis": False}
    return {"type": "scatter", "mode": "markers", **look}


def _trace(
    bars: Sequence[Bar], part: Part, unit: str, along: str, across: str, names: list[str]
) -> dict[str, Any]:
    form = ",.2f" if part.places >= 2 else ",.0f"
    title = part.title.lower()
    return {
        "type": "bar",
        "name": title,
        along: [_drawn(bar.lengths[part.number], part.places) for bar in bars],
        across: names,
        "hovertemplate": f"%{{{along}:{form}}} {f'{unit} {title}'.strip()}<extra></extra>",
    }


def _days_of(days: list[str]) -> dict[str, Any]:
    """An axis of days; where they are few each has its name, and none is cut into hours."""
    axis = {**TIME_AXIS, "hoverformat": "%-d %b %Y"}
    if len(days) > _NAMED_DAYS:
        return {**axis, "nticks": 6}
    return {**axis, "tick0": days[0], "dtick": _DAY_MS}


def _longest(bars: Sequence[Bar]) -> Decimal:
    return max(
        (bar.far(number) for bar in bars for number in range(len(bar.lengths))), default=ZERO
    )


def _drawn(amount: Decimal | None, places: int) -> float | None:
    """A length on the screen: the only place where an amount becomes a float."""
    return None if amount is None else round(float(amount), places)
