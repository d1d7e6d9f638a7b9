"""Reports as files: CSV as it is read, XLSX and Parquet through a file on disk; each streamed."""

from __future__ import annotations

import csv
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from typing import IO, Any

from accounts.errors import DomainError
from portal.reports.books.cells import exact_text
from portal.reports.exports import guarded
from scheduler.ledger.exact import EXACT, ZERO
from scheduler.selectors.books.frame import DECIMALS, Ask, Column, Form, Report, Row, Sheet

FORMATS = ("csv", "xlsx", "parquet", "manifest")
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "parquet": "application/vnd.apache.parquet",
    "manifest": "application/json",
}
_BLOCK = 64 * 1024


class Unavailable(DomainError):
    """A file format whose library is not installed."""

    code, status = "format_unavailable", 501


@dataclass(frozen=True, slots=True)
class Style:
    """How a CSV is written. `is_raw`: no guard before texts that look like formulas."""

    separator: str = ","
    has_bom: bool = True
    is_raw: bool = False


@dataclass(slots=True)
class Tally:
    """What went through an export: rows, sums, and the hash of its bytes."""

    rows: int = 0
    sums: dict[str, Decimal | int] | None = None
    sha256: str = ""
    size: int = 0


class _Block:
    """What csv writes into."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.size = 0

    def write(self, line: str) -> int:
        self.lines.append(line)
        self.size += len(line)
        return len(line)

    def taken(self) -> str:
        text = "".join(self.lines)
        self.lines, self.size = [], 0
        return text


def counted(report: Report, sheet: Sheet, tally: Tally) -> Iterator[Row]:
    """The rows of a sheet, counted and summed on their way."""
    places = [(n, c) for n, c in enumerate(report.columns) if c.is_summed]
    sums: dict[str, Decimal | int] = {
        c.name: (ZERO if c.form in DECIMALS else 0) for _, c in places
    }
    tally.sums = sums
    for row in sheet.rows(0):
        tally.rows += 1
        for place, column in places:
            cell = row.cells[place]
            if isinstance(cell, Decimal):
                sums[column.name] = EXACT.add(Decimal(sums[column.name]), cell)
            elif isinstance(cell, int):
                sums[column.name] += cell
        yield row


def csv_blocks(columns: Sequence[Column], rows: Iterable[Row], style: Style) -> Iterator[bytes]:
    """RFC 4180 in UTF-8, in blocks of some 64 KiB; texts are guarded, numbers never are."""
    block = _Block()
    writer = csv.writer(block, delimiter=style.separator)
    if style.has_bom:
        block.write("\ufeff")
    writer.writerow([column.name for column in columns])
    texts = [column.form is Form.TEXT and not style.is_raw for column in columns]
    for row in rows:
        writer.writerow(
            [
                guarded(cell) if is_text and cell is not None else exact_text(cell)
                for cell, is_text in zip(row.cells, texts, strict=True)
            ]
        )
        if block.size >= _BLOCK:
            yield block.taken().encode()
    yield block.taken().encode()


def file_blocks(
    report: Report, sheet: Sheet, form: str, style: Style, tally: Tally
) -> Iterator[bytes]:
    """A report in a file format, block by block; `tally` is complete once all were taken."""
    rows = counted(report, sheet, tally)
    digest = hashlib.sha256()
    for block in _blocks_of(report, sheet, rows, form, style):
        digest.update(block)
        tally.size += len(block)
        yield block
    tally.sha256 = digest.hexdigest()


def _blocks_of(
    report: Report, sheet: Sheet, rows: Iterator[Row], form: str, style: Style
) -> Iterator[bytes]:
    if form == "csv":
        yield from csv_blocks(report.columns, rows, style)
        return
    # The libraries are loaded by those who want their files only.
    write: Callable[[Sequence[Column], Iterable[Row], IO[bytes]], None]
    if form == "xlsx":
        from portal.reports.books.workbooks import write_workbook as write
    else:
        from portal.reports.books.parquet import write_parquet as write
    with tempfile.TemporaryFile() as file:
        write(report.columns, rows, file)
        file.seek(0)
        while block := file.read(_BLOCK):
            yield block


def require_format(form: str) -> None:
    """Raises Unavailable before anything is sent, with the remedy."""
    library, extra = {"xlsx": ("xlsxwriter", "reports"), "parquet": ("pyarrow", "parquet")}.get(
        form, ("", "")
    )
    if not library:
        return
    try:
        __import__(library)
    except ImportError:
        raise Unavailable(
            f"{form} needs {library}, which is not installed here: "
            f"pip install 'trainyard[{extra}]'. CSV always works.",
            field="format",
        ) from None


def manifest(report: Report, ask: Ask, sheet: Sheet, form: str, style: Style) -> dict[str, Any]:
    """What an export of this report holds: counted by making it once; the same on every run."""
    tally = Tally()
    for _ in file_blocks(report, sheet, form, style, tally):
        pass
    sums = tally.sums or {}
    return {
        "report": report.slug,
        "period": ask.period,
        "period_version": sheet.version,
        "period_state": sheet.state,
        "filter": ask.filters,
        "format": form,
        "rows": tally.rows,
        "totals": {name: exact_text(value) for name, value in sums.items()},
        "currency": sheet.currency,
        "bytes": tally.size,
        "sha256": tally.sha256,
        "columns": [{"name": c.name, "form": str(c.form)} for c in report.columns],
        "checks": check_shapes(sheet),
        "generator": f"trainyard {generator_version()}",
    }


def check_shapes(sheet: Sheet) -> list[dict[str, Any]]:
    """The checks of a sheet for programs: both figures in full."""
    return [
        {
            "check": check.words,
            "left": exact_text(check.left),
            "right": exact_text(check.right),
            "unit": check.unit,
            "holds": check.holds,
        }
        for check in sheet.checks
    ]


def manifest_text(document: dict[str, Any]) -> str:
    """A manifest as a file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def generator_version() -> str:
    """The version of what writes the files."""
    try:
        return version("trainyard")
    except PackageNotFoundError:
        return "unreleased"


def file_name(report: Report, ask: Ask, form: str) -> str:
    """A plain name: the slug, the month or the days, the end."""
    span = ask.span_words.replace(" ", "-")
    return f"{report.slug}-{span}.{'manifest.json' if form == 'manifest' else form}"
