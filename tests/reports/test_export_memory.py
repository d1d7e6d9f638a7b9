"""F27: the memory of an export does not grow with its rows, and made again it is the same bytes."""

from __future__ import annotations

import hashlib
import tempfile
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal

import pytest

from portal.reports.books.files import Style, csv_blocks
from portal.reports.books.workbooks import write_workbook
from scheduler.selectors.books.frame import Column, Form, Row

pytestmark = pytest.mark.once

COLUMNS = (Column("name", "Name"), Column("amount", "Amount", Form.AMOUNT))
FEW, MANY = 2_000, 20_000
# Blocks are 64 KiB of CSV and 256 KiB of XLSX; many rows at once would be several MiB.
MOST_MORE = 1024 * 1024


def rows(count: int) -> Iterator[Row]:
    for number in range(count):
        yield Row(number, (f"vision/digits run {number}", Decimal(number) / 8 - 100))


def made(form: str, count: int) -> str:
    """The SHA-256 of a file of so many rows, read as it is sent."""
    digest = hashlib.sha256()
    if form == "csv":
        for block in csv_blocks(COLUMNS, rows(count), Style()):
            digest.update(block)
        return digest.hexdigest()
    with tempfile.TemporaryFile() as file:
        if form == "parquet":
            parquet = pytest.importorskip("portal.reports.books.parquet", exc_type=ImportError)
            parquet.write_parquet(COLUMNS, rows(count), file)
        else:
            write_workbook(COLUMNS, rows(count), file)
        file.seek(0)
        while block := file.read(64 * 1024):
            digest.update(block)
    return digest.hexdigest()


def peak(form: str, count: int) -> int:
    tracemalloc.start()
    try:
        made(form, count)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Parquet holds groups of 10 000 rows, one being written and the next one.
@pytest.mark.parametrize(
    ("form", "few", "many"),
    [("csv", FEW, MANY), ("xlsx", FEW, MANY), ("parquet", 20_000, 60_000)],
)
def test_more_rows_take_no_more_memory(form, few, many):
    made(form, 1)
    assert peak(form, many) < peak(form, few) + MOST_MORE


@pytest.mark.parametrize("form", ["csv", "xlsx", "parquet"])
def test_made_again_it_is_the_same_bytes(form):
    assert made(form, FEW) == made(form, FEW) != made(form, FEW + 1)
