"""Figures of one row as they are printed: the parts of a sum add up to it, digit by digit.

All of a row have one number of decimals; of the parts some are given a last digit more, by largest
remainder. Down a column the last digit of a sum may differ: each row is true to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction

from portal.reports.books.cells import is_few_cents, is_hours, over_sign, seconds_of
from scheduler.ledger.shares import places_that_add_up, rounded, rounded_to
from scheduler.selectors.books.adding import Adds
from scheduler.selectors.books.frame import Cell, Column, Form, Report
from scheduler.states import hour_places

_CENTS, _MOST_PLACES = 2, 6
_HOUR_S = 3600
Cells = Mapping[str, Cell]


def sums_of(report: Report) -> Iterator[tuple[Adds, list[Column]]]:
    """The sums of a report whose columns are all there (grouped rows may have others), each with
    the columns that it is made of."""
    named = {column.name: column for column in report.columns}
    for adds in report.adds:
        names = (adds.whole, *adds.beside, *adds.parts)
        if all(name in named for name in names):
            yield adds, [named[name] for name in names]


def places_of_hours(report: Report, rows: Iterable[Cells]) -> dict[str, int]:
    """One number of decimals for all hours of a report that are added up, by column."""
    names = [c.name for _, columns in sums_of(report) for c in columns if is_hours(c)]
    found = [seconds_of(cells.get(name)) for cells in rows for name in names]
    return dict.fromkeys(names, places_that_add_up(found, hour_places(found)))


def printed(report: Report, cells: Cells, decimals: Mapping[str, int]) -> dict[str, str]:
    """By column what is printed of the figures that are added up; others are as `cells.shown`.

    `decimals` as `opened.decimals_of`. A sum that its parts do not come to is not mended: such a
    fault has to be seen.
    """
    found: dict[str, str] = {}
    for adds, columns in sums_of(report):
        exact = {column.name: _exact(column, cells.get(column.name)) for column in columns}
        given = sum(exact[name] or 0 for name in (*adds.beside, *adds.parts))
        if exact[adds.whole] is None or exact[adds.whole] != given:
            continue
        places, units = _laid_out(adds, columns, cells, exact, decimals)
        for column in columns:
            if exact[column.name] is not None:
                text = _text(column, units[column.name], places, is_nothing=not exact[column.name])
                found[column.name] = over_sign(column, cells.get(column.name)) + text
    return found


def _exact(column: Column, cell: Cell) -> Fraction | None:
    if is_hours(column):
        seconds = seconds_of(cell)
        return None if seconds is None else Fraction(seconds) / _HOUR_S
    return Fraction(cell) if isinstance(cell, int | Decimal) else None


def _laid_out(
    adds: Adds,
    columns: list[Column],
    cells: Cells,
    exact: Mapping[str, Fraction | None],
    decimals: Mapping[str, int],
) -> tuple[int, dict[str, int]]:
    """How many decimals the row has, and its figures in units of the last of them.

    Of amounts as many as its smallest few cents have in their columns, and more where one would
    vanish.
    """
    is_money = columns[0].form is Form.AMOUNT
    few = [decimals.get(c.name, _CENTS) for c in columns if is_few_cents(cells.get(c.name))]
    places = max(few, default=_CENTS) if is_money else decimals[adds.whole]
    while True:
        scaled = {name: (value or 0) * 10**places for name, value in exact.items()}
        units = {name: rounded(Fraction(scaled[name])) for name in (adds.whole, *adds.beside)}
        target = units[adds.whole] - sum(units[name] for name in adds.beside)
        parts = rounded_to(target, [Fraction(scaled[name]) for name in adds.parts])
        units |= dict(zip(adds.parts, parts, strict=True))
        has_vanished = any(scaled[name] and not unit for name, unit in units.items())
        if not has_vanished or not is_money or places >= _MOST_PLACES:
            return places, units
        places += 1


def _text(column: Column, units: int, places: int, *, is_nothing: bool) -> str:
    if is_nothing and column.form is Form.AMOUNT:
        places = _CENTS
    return f"{Decimal(units).scaleb(-places):,.{places}f}".replace("-", "−")
