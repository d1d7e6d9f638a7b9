"""Tables as CSV, row by row, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

# A text cell that begins so is run as a formula by common spreadsheets.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


class _Line:
    """What csv writes into; hands each finished line on."""

    def write(self, line: str) -> str:
        return line


def guarded(cell: object) -> str:
    """A cell as text. Numbers stay numbers; a text that looks like a formula gets a leading quote.

    Money is written in full, without exponent, so that sums tie to the last digit.
    """
    if isinstance(cell, Decimal):
        return format(cell, "f")
    if isinstance(cell, int | float):
        return str(cell)
    text = str(cell).replace("\x00", "")
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) else text


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """RFC 4180 lines, the header first. Begins with a byte order mark so that Excel reads UTF-8."""
    writer = csv.writer(_Line())
    yield "\ufeff" + writer.writerow(header)
    for row in rows:
        yield writer.writerow([guarded(cell) for cell in row])
