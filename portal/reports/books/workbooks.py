"""Reports as XLSX: typed cells, a header that stays, no formulas; a million rows in a minute.

`xlsxwriter` makes the book: its styles, properties and an empty sheet with the header for each
sheet there will be. The rows are then written into those sheets as text, a line at a time, because
a call of a library for each cell of a million rows takes minutes.

Spreadsheets count in binary floating point. A money cell is therefore a number for adding up and,
in the column beside it, the exact amount as text; numbers are written from their decimal digits.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import chain, islice
from typing import IO

import xlsxwriter
from xlsxwriter.utility import xl_col_to_name

from portal.reports.books.cells import exact_text
from portal.templatetags.measures import shortest
from scheduler.selectors.books.frame import Cell, Column, Form, Row

# What a sheet holds at most, less its header.
MOST_ROWS = 1_048_575
_EXACT = frozenset({Form.AMOUNT, Form.PRICE, Form.HOURS})
_MOST_TEXT = 32_767
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
# Spreadsheets count days from here (and one more, for a 29 February 1900 that never was).
_DAY_ZERO = date(1899, 12, 30)
_ZERO = datetime(1899, 12, 30, tzinfo=UTC)
_SHEET = "xl/worksheets/sheet{}.xml"
_BLOCK = 256 * 1024
_FORMATS = {
    Form.AMOUNT: "#,##0.00",
    Form.PRICE: "0.00####",
    Form.HOURS: "#,##0.00",
    Form.MOMENT: "yyyy-mm-dd hh:mm:ss",
    Form.DAY: "yyyy-mm-dd",
}
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_MARKED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# Makes the XML of a cell from its line and its value.
_Writer = Callable[[int, Cell], str]


def write_workbook(columns: Sequence[Column], rows: Iterable[Row], file: IO[bytes]) -> None:
    """One sheet; further ones where rows do not fit. The same rows give the same bytes."""
    # A second sheet differs from the first: that one is open when the book is opened.
    sheets = _sheets(_empty_book(columns, 2))
    writers = _writers(columns, sheets[0])
    source = iter(rows)
    first, count = next(source, None), 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        while first is not None or not count:
            count += 1
            head, mark, tail = sheets[min(count, 2) - 1].partition("</sheetData>")
            of_it = chain([first] if first else [], islice(source, MOST_ROWS - 1))
            with book.open(_named(_SHEET.format(count)), "w", force_zip64=True) as part:
                part.write(head.encode())
                for block in _blocks(writers, of_it):
                    part.write(block)
                part.write((mark + tail).encode())
            first = next(source, None)
        with zipfile.ZipFile(io.BytesIO(_empty_book(columns, count))) as made:
            written = {_SHEET.format(number) for number in range(1, count + 1)}
            for info in made.infolist():
                if info.filename not in written:
                    book.writestr(_named(info.filename), made.read(info))


def _named(name: str) -> zipfile.ZipInfo:
    """A part of the book; archives carry a time, one that never changes keeps them comparable."""
    info = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def _sheets(book: bytes) -> list[str]:
    """The XML of the two sheets of an empty book."""
    with zipfile.ZipFile(io.BytesIO(book)) as made:
        found = [made.read(_SHEET.format(number)).decode() for number in (1, 2)]
    # It tells of the header alone, and some readers stop where it says.
    return [re.sub(r"<dimension[^>]*/>", "", sheet) for sheet in found]


def _empty_book(columns: Sequence[Column], sheets: int) -> bytes:
    """The book without its rows: what xlsxwriter knows better than we do."""
    made = io.BytesIO()
    book = xlsxwriter.Workbook(made, {"constant_memory": True})
    book.set_properties({"created": _EPOCH, "author": "Trainyard"})
    formats = {form: book.add_format({"num_format": text}) for form, text in _FORMATS.items()}
    bold = book.add_format({"bold": True})
    for number in range(1, sheets + 1):
        sheet = book.add_worksheet("Report" if number == 1 else f"Report {number}")
        sheet.freeze_panes(1, 0)
        for place, (name, form) in enumerate(_heads(columns)):
            sheet.write_string(0, place, name, bold)
            sheet.set_column(place, place, 16, formats.get(form))
    book.close()
    return made.getvalue()


def _heads(columns: Sequence[Column]) -> Iterator[tuple[str, Form]]:
    """The sheet's columns: a second one, of text, beside each that a float may round."""
    for column in columns:
        yield column.name, column.form
        if column.form in _EXACT:
            yield f"{column.name}_exact", Form.TEXT


def _writers(columns: Sequence[Column], sheet: str) -> list[tuple[_Writer, ...]]:
    """For each column of the report, what makes its cells, in the styles of an empty sheet."""
    marked = re.findall(r'<col min="(\d+)" max="\1"[^>]* style="(\d+)"', sheet)
    styles = {int(place) - 1: style for place, style in marked}
    found: list[tuple[_Writer, ...]] = []
    place = 0
    for column in columns:
        style = f' s="{styles[place]}"' if place in styles else ""
        own = [_of_form(column.form, xl_col_to_name(place), style)]
        place += 1
        if column.form in _EXACT:
            own.append(_exact(xl_col_to_name(place)))
            place += 1
        found.append(tuple(own))
    return found


def _of_form(form: Form, place: str, style: str) -> _Writer:
    number = f'<c r="{place}%d"{style}><v>%s</v></c>'
    text = f'<c r="{place}%d" t="inlineStr"><is><t{{}}>%s</t></is></c>'
    plain, spaced = text.format(""), text.format(' xml:space="preserve"')

    def written(line: int, cell: Cell) -> str:
        if isinstance(cell, str):
            return (spaced if cell != cell.strip() else plain) % (line, _marked(cell))
        if isinstance(cell, Decimal):
            return number % (line, shortest(cell))
        if isinstance(cell, datetime):
            return number % (line, _day_number(cell))
        if isinstance(cell, date):
            return number % (line, (cell - _DAY_ZERO).days)
        return number % (line, cell)

    return written


def _exact(place: str) -> _Writer:
    text = f'<c r="{place}%d" t="inlineStr"><is><t>%s</t></is></c>'

    def written(line: int, cell: Cell) -> str:
        return text % (line, exact_text(cell))

    return written


def _marked(text: str) -> str:
    """As XML takes it, cut to what a cell holds; characters it cannot hold are left out."""
    if not (text.isascii() and text.isprintable()):
        text = _UNWRITABLE.sub("", text)
    return text[:_MOST_TEXT].translate(_MARKED)


def _day_number(moment: datetime) -> str:
    """Days since the spreadsheet's zero; spreadsheets know no zones, all moments are UTC."""
    span = moment.astimezone(UTC) - _ZERO
    return f"{span.days + (span.seconds + span.microseconds / 1e6) / 86_400:.9f}"


def _blocks(writers: Sequence[tuple[_Writer, ...]], rows: Iterable[Row]) -> Iterator[bytes]:
    parts: list[str] = []
    size = 0
    for line, row in enumerate(rows, 2):
        cells = [
            write(line, cell)
            for cell, own in zip(row.cells, writers, strict=True)
            if cell is not None and cell != ""
            for write in own
        ]
        text = f'<row r="{line}">{"".join(cells)}</row>'
        parts.append(text)
        size += len(text)
        if size >= _BLOCK:
            yield "".join(parts).encode()
            parts, size = [], 0
    yield "".join(parts).encode()
