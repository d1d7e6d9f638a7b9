"""An opened report as a page and the API need it: a page of its rows, and where figures lead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import islice
from urllib.parse import urlencode

from django.urls import reverse

from portal.reports.books.cells import (
    all_digits,
    amount_places,
    exact_places,
    exact_text,
    is_hours,
    seconds_of,
    shown,
    two_places,
)
from portal.reports.books.printed import places_of_hours, printed
from portal.templatetags.measures import gpu_hours
from scheduler.selectors.books.frame import (
    Ask,
    Cell,
    Check,
    Column,
    Form,
    Report,
    Row,
    Sheet,
)
from scheduler.selectors.books.sums.ratios import sum_under
from scheduler.states import hour_places

PAGE_ROWS = 100
_MOST_LOOKED_AT = 5_000
_SECONDS = "GPU-s"
_NEEDED = frozenset({"attempt", "sku", "rate", "day"})


@dataclass(frozen=True, slots=True)
class ShownCell:
    """`value` is exact, `text` what is read; `url` leads on."""

    column: Column
    text: str
    value: str
    url: str = ""


def page_of(sheet: Sheet, after: int, size: int = PAGE_ROWS) -> tuple[list[Row], int | None]:
    """The rows behind `after`, and the key to go on from; rows of one key stay together.

    So a page may be longer than `size`, by at most the accounts that share what nobody held.
    """
    left = iter(sheet.rows(after))
    rows = list(islice(left, size))
    for row in left:
        if row.key != rows[-1].key:
            return rows, rows[-1].key
        rows.append(row)
    return rows, None


def page_columns(
    report: Report, sheet: Sheet, *, is_all: bool = False
) -> tuple[list[Column], list[Column], list[Column]]:
    """The columns a page shows, those it leaves out because nothing or nothing but zeros is in
    them, and those of details that it keeps for who asks for all."""
    visible = _led([column for column in report.columns if not column.is_file_only])
    details = [] if is_all else [column for column in visible if column.is_detail]
    visible = [column for column in visible if column not in details]
    if report.is_streamed or sheet.count is None or not 0 < sheet.count <= _MOST_LOOKED_AT:
        return visible, [], details
    places = {column.name: place for place, column in enumerate(report.columns)}
    blank, zeros = visible, [c for c in visible if c.is_summed and not sheet.totals.get(c.name)]
    for row in sheet.rows(0):
        blank = [column for column in blank if row.cells[places[column.name]] in (None, "")]
        zeros = [column for column in zeros if not row.cells[places[column.name]]]
    if all(column in zeros for column in visible if column.is_summed):
        zeros = []
    left_out = [column for column in visible if column in blank or column in zeros]
    return [column for column in visible if column not in left_out], left_out, details


def _led(columns: list[Column]) -> list[Column]:
    """What a wide table is read for, right after the first words: not off the edge of a screen."""
    lead = [column for column in columns if column.is_lead]
    rest = [column for column in columns if not column.is_lead]
    first = next((n for n, column in enumerate(rest, 1) if column.form is Form.TEXT), 0)
    return [*rest[:first], *lead, *rest[first:]] if lead else columns


def decimals_of(
    report: Report, columns: Iterable[Column], rows: Sequence[Row], totals: Mapping[str, Cell]
) -> dict[str, int]:
    """The decimals of each column of hours, of exact amounts, and of the small ones of amounts: the
    same in all its rows and in its sum; of hours that are added up, in all their columns."""
    places = {column.name: place for place, column in enumerate(report.columns)}
    found = {}
    for column in columns:
        cells = [totals.get(column.name), *(row.cells[places[column.name]] for row in rows)]
        if is_hours(column):
            found[column.name] = hour_places(seconds_of(cell) for cell in cells)
        elif column.is_exact:
            found[column.name] = exact_places(cells)
        elif column.form is Form.AMOUNT and (small := amount_places(cells)):
            found[column.name] = small
    return found | places_of_hours(report, [totals, *(_named(report, row) for row in rows)])


def _named(report: Report, row: Row) -> dict[str, Cell]:
    return {column.name: cell for column, cell in zip(report.columns, row.cells, strict=True)}


def shown_rows(
    report: Report,
    columns: Iterable[Column],
    ask: Ask,
    rows: Iterable[Row],
    decimals: Mapping[str, int],
) -> Iterator[list[ShownCell]]:
    """Cells of these columns, with links to what is behind them; `decimals` as `decimals_of`."""
    places = {column.name: place for place, column in enumerate(report.columns)}
    visible = [(places[column.name], column) for column in columns]
    for row in rows:
        texts = printed(report, _named(report, row), decimals)
        yield [
            ShownCell(
                column,
                texts.get(column.name)
                or shown(column, row.cells[place], decimals.get(column.name)),
                exact_text(row.cells[place]),
                _link(column, ask, row, places),
            )
            for place, column in visible
        ]


def foot_of(
    report: Report,
    columns: Iterable[Column],
    totals: Mapping[str, Cell],
    decimals: Mapping[str, int],
) -> list[tuple[Column, str, str]]:
    """What stands below these columns, as it is read and exact; empty texts where nothing does."""
    texts = printed(report, totals, decimals)
    found = []
    for column in columns:
        cell = sum_under(column, totals)
        text = "" if cell is None else shown(column, cell, decimals.get(column.name))
        found.append((column, texts.get(column.name, text), exact_text(cell)))
    return found


def adds_up(rows: Sequence[Sequence[ShownCell]], foot: Sequence[tuple[Column, str, str]]) -> bool:
    """Whether each sum of a foot is what is printed above it, all rows being there."""
    for place, (column, text, _) in enumerate(foot):
        above = [_number(row[place].text) for row in rows]
        if column.is_summed and text and sum(above) != _number(text):
            return False
    return True


def _number(text: str) -> Decimal:
    """Zero of what is no number, `—`, or none that is printed, `< 0.001`."""
    try:
        return Decimal(text.replace(",", "").replace("−", "-").removesuffix(" %"))
    except InvalidOperation:
        return Decimal(0)


def _link(column: Column, ask: Ask, row: Row, places: Mapping[str, int]) -> str:
    cell = row.cells[places[column.name]]
    if not cell:
        return ""
    if column.is_job:
        return reverse("jobs:detail", kwargs={"pk": cell})
    if column.is_statement:
        return reverse("finance:statement", kwargs={"number": cell})
    if column.drill is None:
        return ""
    taken: dict[str, Cell] = {p: row.cells[places[n]] for p, n in column.drill.take.items()}
    taken = {name: value for name, value in taken.items() if value != column.drill.of_all}
    if any(not taken.get(name) for name in column.drill.take if name in _NEEDED):
        return ""
    if taken.get("project"):
        taken = {**taken, "project": f"{taken.pop('team', '')}/{taken['project']}"}
    narrowed = {name: exact_text(value) for name, value in taken.items() if value}
    narrowed |= column.drill.fixed
    if not narrowed:
        return ""
    # A day lies in a month of its own; what is of several days leads on to the same ones.
    period = narrowed["day"][:7] if "day" in narrowed else ask.period
    days = {} if "day" in narrowed else {"from": ask.since, "to": ask.until}
    kept = {name: day for name, day in days.items() if day}
    return address(column.drill.slug, {"period": period, **kept, **narrowed})


def address(slug: str, parameters: Mapping[str, str]) -> str:
    """A report's page with these parameters."""
    return f"{reverse('finance:report', kwargs={'slug': slug})}?{urlencode(parameters)}"


def check_words(check: Check, columns: Iterable[Column] = ()) -> str:
    """`equals ledger: 12,345.67 EUR`, or what it is beside what it should be; in hours where these
    columns, those of the table above it, are."""
    words, unit = check.words, check.unit
    if unit == _SECONDS:
        unit = "GPU-hours" if any(map(is_hours, columns)) else "GPU-seconds"
        words = words.replace("GPU-seconds", unit)
    left, right = (_figure(each, unit, check.is_exact) for each in (check.left, check.right))
    if check.holds:
        return f"{words}: {left}" if check.left == check.right else f"{words}: {left} of {right}"
    # What is wrong may be a second: to the last digit.
    left, right = exact_text(check.left), exact_text(check.right)
    unit = "GPU-seconds" if unit == "GPU-hours" else unit
    return f"{words}: NO, {left} against {right} {unit}"


def _figure(value: object, unit: str, is_exact: bool) -> str:
    if unit == "GPU-hours":
        return f"{gpu_hours(value)} {unit}"
    if isinstance(value, int):
        return f"{value:,} {unit}".strip()
    if not isinstance(value, Decimal):
        return str(value)
    return f"{all_digits(value) if is_exact else two_places(value)} {unit}".strip()
