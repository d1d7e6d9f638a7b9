"""The frame of a report: what page, API, CSV, XLSX and Parquet all read, so they cannot differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Flag, StrEnum, auto

from scheduler.ledger.exact import total
from scheduler.selectors.books.adding import Adds
from scheduler.selectors.books.scope import Scope
from scheduler.states import day_words

Cell = str | int | Decimal | date | datetime | None
Cells = tuple[Cell, ...]


class Form(StrEnum):
    """What stands in a column: each form has one type in every file format."""

    TEXT = "text"
    COUNT = "count"
    SECONDS = "seconds"
    HOURS = "hours"
    AMOUNT = "amount"
    PRICE = "price"
    PERCENT = "percent"
    DAY = "day"
    MOMENT = "moment"


DECIMALS = frozenset({Form.HOURS, Form.AMOUNT, Form.PRICE, Form.PERCENT})
WHOLE = frozenset({Form.COUNT, Form.SECONDS})


@dataclass(frozen=True, slots=True)
class Drill:
    """Where a figure leads: a report, with parameters from columns of its row and fixed ones.

    A cell that says `of_all` narrows nothing.
    """

    slug: str
    take: Mapping[str, str]
    fixed: Mapping[str, str] = field(default_factory=dict)
    of_all: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """`name` heads files, `title` the page. `is_summed`: the foot of the table adds it up.

    `is_job` and `is_statement` columns hold numbers of things with a page of their own; `is_lead`:
    a page shows it right after the first words, files where it stands; `is_detail`: a page shows it
    to who asks for all columns; `is_exact`: a page shows all digits. `share_of`: per cent the first
    of these columns is of the second, `mean_of`: what there is of the first for each of the second;
    in sums too.
    """

    name: str
    title: str
    form: Form = Form.TEXT
    is_summed: bool = False
    drill: Drill | None = None
    is_file_only: bool = False
    is_job: bool = False
    is_statement: bool = False
    is_lead: bool = False
    is_detail: bool = False
    is_exact: bool = False
    share_of: tuple[str, str] | None = None
    mean_of: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Two figures that have to be the same, shown in full if `is_exact`; `unit` may be empty."""

    words: str
    left: Decimal | int
    right: Decimal | int
    unit: str = ""
    is_exact: bool = False

    @property
    def holds(self) -> bool:
        """Whether they are, to the last digit."""
        return self.left == self.right


@dataclass(frozen=True, slots=True)
class Bound(Check):
    """A figure that may not be above another."""

    @property
    def holds(self) -> bool:
        return self.left <= self.right


# What an `Ask` may be narrowed by, in the order in which a page offers it.
NARROWS = (
    "team", "project", "sku", "rate", "attempt", "label", "day", "from", "to", "pool",
    "flavour", "kind", "bucket", "sort",
)  # fmt: skip

# Parameters that Python has other uses for.
_FIELDS = {"from": "since", "to": "until"}


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of a report: a month, and what it is narrowed to; empty means all.

    `since` and `until` are the first and the last day, the parameters `from` and `to`; with either
    of them `period` is the month in which the first lies.
    `sort` is a column's name, with `-` in front for falling order. `now_s` cuts what is still
    running; 0: the month's end.
    """

    period: str
    team: str = ""
    project: str = ""
    sku: str = ""
    rate: str = ""
    attempt: int = 0
    label: str = ""
    day: str = ""
    since: str = ""
    until: str = ""
    pool: str = ""
    flavour: str = ""
    kind: str = ""
    bucket: str = ""
    sort: str = ""
    now_s: int = 0

    @property
    def filters(self) -> dict[str, str]:
        """What it is narrowed to, by parameter; for links and manifests."""
        found = {name: str(self.value(name)) for name in NARROWS}
        return {name: text for name, text in found.items() if text not in ("", "0")}

    def value(self, name: str) -> str | int:
        """What a parameter was given as."""
        found: str | int = getattr(self, _FIELDS.get(name, name))
        return found

    @property
    def has_days(self) -> bool:
        """Whether it is of days rather than of a month."""
        return bool(self.since or self.until)

    @property
    def span_words(self) -> str:
        """The month, or the days, as the name of a file says it."""
        if not self.has_days:
            return self.period
        return f"{self.since or self.period} to {self.until or self.period}"

    @property
    def title_words(self) -> str:
        """The same as a title says it."""
        if not self.has_days:
            return self.period
        first, last = (
            day_words(date.fromisoformat(day)) if day else self.period
            for day in (self.since, self.until)
        )
        return f"{first} to {last}"


@dataclass(frozen=True, slots=True)
class Row:
    """`key` grows from row to row and is the same on every reading: pages go on behind it."""

    key: int
    cells: Cells


@dataclass(frozen=True, slots=True)
class Sheet:
    """An opened report. `rows(after)` streams the rows whose key is beyond `after`, in order.

    `totals` are of the whole sheet by column, whatever page is shown. `version` counts the closes
    of the month: with the same version the same rows come out. `remarks` are about all of it, and
    stand above the rows; `notes` are about what one row is of, by its name, and stand below them.
    """

    rows: Callable[[int], Iterator[Row]]
    totals: Mapping[str, int | Decimal]
    checks: Sequence[Check]
    currency: str = ""
    version: int = 0
    state: str = ""
    count: int | None = None
    remarks: Sequence[str] = field(default_factory=tuple)
    notes: Sequence[tuple[str, str]] = field(default_factory=tuple)


class Who(Flag):
    """Whose figures a report has: for those who keep the books, leads, owners, operators."""

    BOOKS = auto()
    TEAMS = auto()
    OWN = auto()
    OPERATORS = auto()


@dataclass(frozen=True, slots=True)
class Bars:
    """One picture, in one measure: `parts` of each label one after the other as its bar, and
    `marks` across it, which it is held against."""

    parts: tuple[str, ...]
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One report: `takes` are the parameters of an `Ask` it understands beside the month.

    `is_streamed` reports may be longer than memory and cannot be sorted. `chart` names the column
    of labels and the one of values of its picture; `bars`: what each label has instead, where these
    columns are there. `is_trail` reports are what figures lead to. `folds`: the columns a page
    takes rows together by, until somebody asks for the rows themselves. `adds`: its sums.
    """

    slug: str
    title: str
    about: str
    grain: str
    columns: tuple[Column, ...]
    who: Who
    open: Callable[[Ask, Scope], Sheet]
    takes: frozenset[str] = frozenset()
    chart: tuple[str, str] | None = None
    bars: tuple[Bars, ...] = ()
    is_streamed: bool = False
    is_trail: bool = False
    folds: tuple[str, ...] = ()
    adds: tuple[Adds, ...] = ()

    def column(self, name: str) -> Column:
        """The column of this name; raises KeyError."""
        return next(column for column in self.columns if column.name == name)


def totals_of(columns: Sequence[Column], rows: Sequence[Cells]) -> dict[str, int | Decimal]:
    """Sums of the summed columns, exact."""
    found: dict[str, int | Decimal] = {}
    for place, column in enumerate(columns):
        if not column.is_summed:
            continue
        cells = [row[place] for row in rows if row[place] is not None]
        if column.form in DECIMALS:
            found[column.name] = total(cell for cell in cells if isinstance(cell, Decimal))
        else:
            found[column.name] = sum(cell for cell in cells if isinstance(cell, int))
    return found


def listed(columns: Sequence[Column], rows: Sequence[Cells], sort: str = "") -> tuple[Row, ...]:
    """Rows in the order asked for, numbered from 1; empty cells come last either way."""
    ordered = list(rows)
    name, is_falling = sort.removeprefix("-"), sort.startswith("-")
    places = {column.name: place for place, column in enumerate(columns)}
    if name in places:
        place = places[name]
        full = [row for row in ordered if row[place] is not None]
        full.sort(key=lambda row: row[place], reverse=is_falling)  # type: ignore[arg-type,return-value]
        ordered = full + [row for row in ordered if row[place] is None]
    return tuple(Row(number, cells) for number, cells in enumerate(ordered, 1))


def sheet_of(
    columns: Sequence[Column],
    rows: Sequence[Cells],
    ask: Ask,
    checks: Sequence[Check],
    totals: Mapping[str, int | Decimal] | None = None,
    /,
    **more: object,
) -> Sheet:
    """A sheet of rows that are in memory; `totals`: their sums, where they are made already."""
    kept = listed(columns, rows, ask.sort)

    def read(after: int) -> Iterator[Row]:
        return iter(kept[max(0, after) :])

    sums = totals_of(columns, rows) if totals is None else totals
    return Sheet(read, sums, tuple(checks), count=len(kept), **more)  # type: ignore[arg-type]
