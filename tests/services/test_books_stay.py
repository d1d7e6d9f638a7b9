"""The database itself refuses to change what was written in the books, on both databases."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from scheduler.services import books
from tests.services.test_books import DECEMBER, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["yard"]
APPENDED = "ledgerentry periodclose statement statementline".split()
SEGMENT = "a segment is only ever ended, once"
LINE = "a line of a closed month does not change"
REFUSED = {
    f"{verb} {table}": (sql.format(f"scheduler_{table}"), f"scheduler_{table} is append-only")
    for table in APPENDED
    for verb, sql in (("change", "UPDATE {} SET id = id + 1000"), ("delete", "DELETE FROM {}"))
} | {
    "change segment": ("UPDATE scheduler_devicesegment SET cause = 'x'", SEGMENT),
    "open segment": ("UPDATE scheduler_devicesegment SET end_s = NULL", SEGMENT),
    "end segment elsewhere": (
        "UPDATE scheduler_devicesegment SET end_s = start_s, project_id = NULL, cause = 'x' "
        "WHERE end_s IS NULL",
        SEGMENT,
    ),
    "delete segment": ("DELETE FROM scheduler_devicesegment", SEGMENT),
    "change line": ("UPDATE scheduler_usageline SET gpu_seconds = gpu_seconds + 1", LINE),
    "delete line": ("DELETE FROM scheduler_usageline", LINE),
}


@pytest.mark.parametrize("what", REFUSED)
def test_books_cannot_be_changed(root, yard, what):
    close(root)
    statement, words = REFUSED[what]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with (
        pytest.raises(DatabaseError, match=words),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert books.verify_ledger().breaks == ()
    assert books.reconcile_books(now=DECEMBER).holds
