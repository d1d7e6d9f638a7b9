"""A report's rows taken together: by one of its columns, and across another one; or as its page
first shows them.

What comes out is a report like any other, so the page, its files and its picture need nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accounts.errors import Invalid
from portal.reports.books.cells import exact_text, short_text
from scheduler.ledger.exact import EXACT
from scheduler.selectors.books.frame import (
    Ask,
    Bars,
    Cell,
    Cells,
    Check,
    Column,
    Drill,
    Form,
    Report,
    Sheet,
    sheet_of,
)
from scheduler.selectors.books.sums.ratios import sum_under

_GROUPED = frozenset({Form.TEXT, Form.DAY})
_MOST_ACROSS = 24
_TOO_LONG = "This report is too long to be grouped, or nothing in it adds up."
_Sum = dict[tuple[Cell, ...], Cell]


@dataclass(frozen=True, slots=True)
class Pivot:
    """`by` and `across` are columns of labels, `figure` one of those that add up."""

    by: str = ""
    across: str = ""
    figure: str = ""


def groups_of(report: Report) -> list[Column]:
    """The columns its rows can be taken together by; none for what is longer than memory, and where
    nothing adds up."""
    if report.is_streamed or not figures_of(report):
        return []
    return [c for c in report.columns if c.form in _GROUPED and c.name != "currency"]


def figures_of(report: Report) -> list[Column]:
    """The columns that add up."""
    return [column for column in report.columns if column.is_summed]


def pivoted(report: Report, sheet: Sheet, ask: Ask, pivot: Pivot) -> tuple[Report, Sheet]:
    """The report by groups; as it is where no group is asked for. Raises Invalid by field."""
    if pivot.across:
        _named(groups_of(report), pivot.across, "across")
    if pivot.figure:
        _named(figures_of(report), pivot.figure, "figure")
    if not pivot.by:
        if pivot.across:
            raise Invalid("Name what to group by, too.", field="by")
        return report, sheet
    by = _named(groups_of(report), pivot.by, "by")
    if not pivot.across:
        figures = figures_of(report)
        return _taken(report, sheet, ask, (by,), [(column, None) for column in figures], -1)
    across = _named(groups_of(report), pivot.across, "across")
    if across is by:
        raise Invalid("Group by one column, across another.", field="across")
    name = pivot.figure or (report.chart[1] if report.chart else "")
    figures = figures_of(report)
    figure = _named(figures, name or figures[0].name, "figure") if figures else None
    if figure is None:
        raise Invalid("Nothing in this report adds up.", field="figure")
    place = report.columns.index(across)
    values = sorted({exact_text(row.cells[place]) for row in sheet.rows(0)})
    if len(values) > _MOST_ACROSS:
        raise Invalid(
            f"{across.title} has {len(values)} values, more than {_MOST_ACROSS} columns: "
            "group by it instead.",
            field="across",
        )
    return _taken(report, sheet, ask, (by,), [(figure, value) for value in values], place)


def folded(report: Report, sheet: Sheet, ask: Ask) -> tuple[Report, Sheet]:
    """The report as its page first shows it: taken together by its `folds`, and as it is where it
    has none. Its first words lead to the rows behind them."""
    if not report.folds:
        return report, sheet
    figures = figures_of(report)
    by = tuple(report.column(name) for name in report.folds)
    made, kept = _taken(report, sheet, ask, by, [(column, None) for column in figures], -1)
    first, *rest = made.columns
    rows = Drill(report.slug, {first.name: first.name}, {"rows": "all"})
    drilled = (_without(report.column(column.name), made) for column in rest)
    return replace(made, columns=(replace(first, drill=rows), *drilled)), kept


def _without(column: Column, made: Report) -> Column:
    """A column whose figure leads on by what its row still says."""
    if column.drill is None:
        return column
    names = {each.name for each in made.columns}
    take = {key: name for key, name in column.drill.take.items() if name in names}
    return replace(column, drill=replace(column.drill, take=take))


def _named(columns: list[Column], name: str, field: str) -> Column:
    found = next((column for column in columns if column.name == name), None)
    if found is None:
        known = ", ".join(column.name for column in columns)
        none = "Nothing in this report adds up." if field == "figure" else _TOO_LONG
        words = f"Choose from {known}." if known else none
        raise Invalid(words, field=field)
    return found


def _taken(
    report: Report,
    sheet: Sheet,
    ask: Ask,
    by: tuple[Column, ...],
    parts: list[tuple[Column, str | None]],
    across: int,
) -> tuple[Report, Sheet]:
    """Rows summed by columns; each part is a figure, of one value of `across` or of all.

    In order of the first column, and as they come within it: the whole stands above its parts.
    """
    places = {column.name: place for place, column in enumerate(report.columns)}
    sums: dict[tuple[str, ...], list[Cell]] = {}
    labels: dict[tuple[str, ...], Cells] = {}
    for row in sheet.rows(0):
        cells = tuple(row.cells[places[column.name]] for column in by)
        key = tuple(map(exact_text, cells))
        labels[key] = cells
        found = sums.setdefault(key, [None] * len(parts))
        for number, (column, value) in enumerate(parts):
            if value is None or exact_text(row.cells[across]) == value:
                found[number] = _added(found[number], row.cells[places[column.name]])
    columns = (
        *(replace(column, drill=None) for column in by),
        *(_part(report, column, value, across) for column, value in parts),
    )
    ordered = sorted(sums, key=lambda key: key[0])
    rows: list[Cells] = [(*labels[key], *sums[key]) for key in ordered]
    if across < 0:
        columns, rows = _with_shares(report, columns, rows, len(by))
    made = sheet_of(columns, rows, ask, ())
    own = {column.name for column, value in parts if value is None}
    checks = []
    for name in sorted(own & set(sheet.totals))[:1]:
        column = report.column(name)
        unit = "GPU-s" if column.form is Form.SECONDS else sheet.currency
        title = column.title.removesuffix(" h")
        title = title if title.startswith("GPU") else title[:1].lower() + title[1:]
        words = f"{title} adds up to the report's"
        checks.append(Check(words, made.totals[name], sheet.totals[name], unit))
    drawn = _drawn_figure(report, columns[len(by) :])
    chart = (by[0].name, drawn.name) if drawn else None
    pieces = tuple(column.name for column in columns[len(by) :])
    bars = (Bars(pieces),) if across >= 0 else report.bars
    kept = replace(made, currency=sheet.currency, version=sheet.version, state=sheet.state)
    grain = " and ".join(column.title.lower() for column in by)
    grouped = replace(report, columns=columns, chart=chart, bars=bars, grain=grain)
    return grouped, replace(kept, checks=(*sheet.checks, *checks), remarks=sheet.remarks)


def _with_shares(
    report: Report, columns: tuple[Column, ...], rows: list[Cells], heads: int
) -> tuple[tuple[Column, ...], list[Cells]]:
    """With the columns of shares where they stand in the report: sums have shares of their own."""
    by, figures = columns[:heads], columns[heads:]
    named = {column.name: column for column in figures}
    named |= {column.name: column for column in report.columns if column.share_of or column.mean_of}
    kept = [named[column.name] for column in report.columns if column.name in named]
    found: list[Cells] = []
    for row in rows:
        sums = {column.name: cell for column, cell in zip(figures, row[heads:], strict=True)}
        found.append((*row[:heads], *(sum_under(column, sums) for column in kept)))
    return (*by, *kept), found


def _drawn_figure(report: Report, figures: Sequence[Column]) -> Column | None:
    """What the report itself draws, else the first that the page shows."""
    usual = report.chart[1] if report.chart else ""
    seen = [column for column in figures if not column.is_file_only]
    return next((column for column in seen if column.name == usual), seen[0] if seen else None)


def _part(report: Report, column: Column, value: str | None, across: int) -> Column:
    if value is None:
        return replace(column, drill=None)
    title = short_text(report.columns[across].name, value) or "none"
    if column.form is Form.SECONDS:
        title = f"{title} h"
    return Column(
        f"{column.name}:{value or 'none'}",
        title,
        column.form,
        is_summed=True,
        is_exact=column.is_exact,
    )


def _added(left: Cell, right: Cell) -> Cell:
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return EXACT.add(left, right)  # type: ignore[arg-type]
