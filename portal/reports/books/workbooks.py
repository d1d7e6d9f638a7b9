"""Reports as XLSX: typed cells, a header that stays, no formulas; written row by row.

Spreadsheets count in binary floating point. A money cell is therefore a number for adding up and,
in the column beside it, the exact amount as text; numbers are written from their decimal digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Any

import xlsxwriter

from portal.reports.books.cells import exact_text
from scheduler.selectors.books.frame import Column, Form, Row

# What a sheet holds at most, less its header.
MOST_ROWS = 1_048_575
_EXACT = frozenset({Form.AMOUNT, Form.PRICE, Form.HOURS})
_MOST_TEXT = 32_767
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def write_workbook(columns: Sequence[Column], rows: Iterable[Row], file: IO[bytes]) -> None:
    """One sheet; further ones where rows do not fit. The same rows give the same bytes."""
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "default_date_format": "yyyy-mm-dd",
    }
    book = xlsxwriter.Workbook(file, options)
    book.set_properties({"created": _EPOCH, "author": "Trainyard"})
    formats = {
        Form.AMOUNT: book.add_format({"num_format": "#,##0.00"}),
        Form.PRICE: book.add_format({"num_format": "0.00####"}),
        Form.HOURS: book.add_format({"num_format": "#,##0.00"}),
        Form.MOMENT: book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"}),
        Form.DAY: book.add_format({"num_format": "yyyy-mm-dd"}),
    }
    bold = book.add_format({"bold": True})
    sheet: Any = None
    place = MOST_ROWS + 1
    number = 0
    for row in rows:
        if place > MOST_ROWS:
            number += 1
            sheet, place = _new_sheet(book, columns, bold, number), 1
        _write(sheet, place, columns, row, formats)
        place += 1
    if sheet is None:
        _new_sheet(book, columns, bold, 1)
    book.close()


def _new_sheet(book: Any, columns: Sequence[Column], bold: Any, number: int) -> Any:
    sheet = book.add_worksheet("Report" if number == 1 else f"Report {number}")
    sheet.freeze_panes(1, 0)
    place = 0
    for column in columns:
        sheet.write_string(0, place, column.name, bold)
        place += 1
        if column.form in _EXACT:
            sheet.write_string(0, place, f"{column.name}_exact", bold)
            place += 1
    sheet.set_column(0, max(0, place - 1), 16)
    return sheet


def _write(sheet: Any, line: int, columns: Sequence[Column], row: Row, formats: Any) -> None:
    place = 0
    for column, cell in zip(columns, row.cells, strict=True):
        if isinstance(cell, datetime):
            # Spreadsheets know no zones; all moments are UTC.
            moment = cell.astimezone(UTC).replace(tzinfo=None)
            sheet.write_datetime(line, place, moment, formats[Form.MOMENT])
        elif column.form is Form.DAY and cell is not None:
            sheet.write_datetime(line, place, cell, formats[Form.DAY])
        elif isinstance(cell, int | Decimal):
            sheet.write_number(line, place, cell, formats.get(column.form))
        elif cell:
            sheet.write_string(line, place, str(cell)[:_MOST_TEXT])
        place += 1
        if column.form in _EXACT:
            if cell is not None:
                sheet.write_string(line, place, exact_text(cell))
            place += 1
