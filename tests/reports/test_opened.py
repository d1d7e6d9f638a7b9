"""An opened report: its pages, and what it is narrowed to by team and project."""

from __future__ import annotations

from portal.reports.books.opened import page_of
from scheduler.selectors.books.frame import Row, Sheet


def test_a_page_ends_where_the_key_changes_however_many_rows_share_one():
    keys = [*range(1, 96), *[999] * 160, 1000]
    sheet = Sheet(lambda after: (Row(key, (key,)) for key in keys if key > after), {}, [])
    found: list[int] = []
    after: int | None = 0
    while after is not None:
        rows, after = page_of(sheet, after)
        found += [row.key for row in rows]
    assert found == keys
    assert page_of(sheet, 999, 1) == ([Row(1000, (1000,))], None)
