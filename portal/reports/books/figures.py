"""The pictures beside a report's table, from the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

from portal.reports.books.cells import exact_text, short_text, two_places
from portal.reports.books.drawing import Bar, Part, lying, upright
from portal.templatetags import measures
from scheduler.selectors.books.frame import Bars, Cell, Column, Form, Report, Sheet
from scheduler.states import day_words

MOST_BARS = 20
# What is drawn is whole: of more rows than these nothing is.
_MOST_ROWS = 20_000
_TIMES = frozenset({"day", "week", "month"})
_HOURS, _MONEY = frozenset({Form.SECONDS, Form.HOURS}), frozenset({Form.AMOUNT, Form.PRICE})
# By what is drawn, the decimals of a length and the least one: a bar of no length at all, such as
# cents of rounding, would only take room.
_PLACES = {Form.AMOUNT: 2, Form.COUNT: 0}
_USUAL_PLACES = 4


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure, the unit of its lengths, and the same in words."""

    figure: dict[str, Any]
    unit: str
    summary: str


@dataclass(slots=True)
class _Found:
    """A label and what was added up of it; None where nothing is said."""

    words: str
    sums: list[Decimal | int | None]


@dataclass(frozen=True, slots=True)
class _Measure:
    """The columns of one picture, and whose currency they are in."""

    parts: Sequence[Column]
    marks: Sequence[Column]
    currency: str
    found: dict[str, _Found] = field(default_factory=dict)

    @property
    def columns(self) -> list[Column]:
        return [*self.parts, *self.marks]

    @property
    def form(self) -> Form:
        return self.parts[0].form

    @property
    def unit(self) -> str:
        if self.form in _HOURS:
            return "GPU-h"
        return self.currency if self.form in _MONEY else ""


def report_pictures(report: Report, sheet: Sheet) -> list[Picture]:
    """Bars of the largest, or of days in order of time; one for each measure and currency, none
    where nothing is to draw."""
    if report.chart is None:
        return []
    if report.is_streamed or (sheet.count or 0) > _MOST_ROWS:
        return []
    names = {column.name for column in report.columns}
    told = [one for one in report.bars if names.issuperset((*one.parts, *one.marks))]
    found = []
    for bars in told or [Bars((report.chart[1],))]:
        found += _pictures(report, _collected(report, sheet, bars))
    return found


def _collected(report: Report, sheet: Sheet, bars: Bars) -> list[_Measure]:
    """Rows by their labels, apart by currency where that is the row's own."""
    assert report.chart is not None
    label, _ = report.chart
    places = {column.name: place for place, column in enumerate(report.columns)}
    parts, marks = ([report.column(name) for name in names] for names in (bars.parts, bars.marks))
    cells_of = [places[column.name] for column in (*parts, *marks)]
    currency = places.get("currency") if parts[0].form in _MONEY else None
    found: dict[str, _Measure] = {}
    for row in sheet.rows(0):
        own = [row.cells[place] for place in cells_of]
        if all(cell is None for cell in own):
            continue
        whose = str((currency is not None and row.cells[currency]) or sheet.currency)
        measure = found.setdefault(whose, _Measure(parts, marks, whose))
        if label == "project":
            key = _words(report, row.cells, places)
        else:
            key = exact_text(row.cells[places[label]])
        if key not in measure.found:
            measure.found[key] = _Found(_words(report, row.cells, places), [None] * len(own))
        sums = measure.found[key].sums
        for number, cell in enumerate(own):
            if isinstance(cell, int | Decimal):
                sums[number] = cell + (sums[number] or 0)
    return list(found.values())


def _words(report: Report, cells: Sequence[Cell], places: dict[str, int]) -> str:
    """What a bar is called: a project and a budget by the path of whose they are."""
    assert report.chart is not None
    label = report.chart[0]
    if label in ("project", "budget") and "team" in places:
        path = "/".join(str(cells[places[name]] or "") for name in ("team", "project"))
        nobody = "the organisation" if label == "budget" else "no team"
        return path.strip("/") or nobody
    column = report.column(label)
    cell = cells[places[label]]
    if isinstance(cell, date):
        return day_words(cell)
    return short_text(label, exact_text(cell)) or f"no {column.title.lower()}"


def _pictures(report: Report, found: Sequence[_Measure]) -> list[Picture]:
    made = (_picture(report, measure) for measure in found)
    return [one for one in made if one is not None]


def _picture(report: Report, measure: _Measure) -> Picture | None:
    assert report.chart is not None
    is_time = report.chart[0] in _TIMES
    bars = [Bar(key, one.words, _lengths(measure, one)) for key, one in measure.found.items()]
    many = len(measure.parts)
    if is_time:
        bars.sort(key=lambda bar: bar.key)
    else:
        least = _parts(measure)[0].least
        bars = [bar for bar in bars if any(bar.far(n) >= least for n in range(len(bar.lengths)))]
        # The largest either way: what was given back counts as much as what was charged.
        bars.sort(key=lambda bar: bar.weight(many), reverse=True)
        bars = sorted(bars[:MOST_BARS], key=lambda bar: bar.order(many))
    bars = _told_apart(bars, report.chart[0])
    parts = [part for part in _parts(measure) if _is_drawn(part, bars, bool(measure.marks))]
    if not bars or not any(part.number < many for part in parts):
        return None
    if is_time:
        figure = upright(bars, parts, measure.unit, is_days=report.chart[0] == "day")
    else:
        figure = lying(bars, parts, measure.unit)
    say = _said_over if is_time else _said_of_each
    return Picture(figure, measure.unit, say(bars, parts, measure))


def _parts(measure: _Measure) -> list[Part]:
    many = len(measure.parts)
    places = _PLACES.get(measure.form, _USUAL_PLACES)
    return [
        Part(
            number,
            column.title.removesuffix(" h").removesuffix(" in money"),
            places,
            mark=number - many if number >= many else None,
        )
        for number, column in enumerate(measure.columns)
    ]


def _is_drawn(part: Part, bars: Sequence[Bar], is_held_against: bool) -> bool:
    """What has no length anywhere is left out; of bars that are held against something, that says
    something."""
    if is_held_against and part.mark is None:
        return any(bar.lengths[part.number] is not None for bar in bars)
    return any(bar.far(part.number) >= part.least for bar in bars)


def _told_apart(bars: Sequence[Bar], label: str) -> list[Bar]:
    """Two budgets of one team have one name: each then has its number, too."""
    names = [measures.plain(bar.words)[:40] for bar in bars]
    if label == "budget":
        names = [
            f"{name}, {bar.key}" if names.count(name) > 1 else name
            for bar, name in zip(bars, names, strict=True)
        ]
    return [Bar(bar.key, name, bar.lengths) for bar, name in zip(bars, names, strict=True)]


def _lengths(measure: _Measure, one: _Found) -> list[Decimal | None]:
    per = 3600 if measure.form is Form.SECONDS else 1
    return [None if cell is None else Decimal(cell) / per for cell in one.sums]


def _said_over(bars: Sequence[Bar], parts: Sequence[Part], measure: _Measure) -> str:
    """The sums of the picture in words; the table names each."""
    whole = [sum((bar.lengths[part.number] or 0 for bar in bars), Decimal(0)) for part in parts]
    said = ", ".join(map(partial(_said, measure), parts, whole))
    span = bars[0].words if len(bars) == 1 else f"{bars[0].words} to {bars[-1].words}"
    return f"{span}, in all: {said}. The table above has each."


def _said_of_each(bars: Sequence[Bar], parts: Sequence[Part], measure: _Measure) -> str:
    """The picture in words, from its top."""
    lines = []
    for bar in reversed(bars):
        told = [(part, bar.lengths[part.number]) for part in parts]
        said = [_said(measure, part, length) for part, length in told if length is not None]
        lines.append(f"{bar.words}: {', '.join(said)}")
    return f"{'; '.join(lines)}."


def _said(measure: _Measure, part: Part, length: Decimal) -> str:
    """A length as the table has it."""
    if measure.form in _HOURS:
        figure = measures.gpu_hours(length * 3600)
    else:
        figure = two_places(length) if measure.form in _MONEY else f"{length:,}"
    # Between two of them stands a comma already.
    title = part.title.lower().replace(",", " and")
    return f"{title} {figure} {measure.unit}".rstrip()
