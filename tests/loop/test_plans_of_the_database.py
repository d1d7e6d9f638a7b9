"""What PostgreSQL keeps of a statement from when a table was empty must not last."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.postgres,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no checks with plans"),
]
MANY = 2_000
# As often as PostgreSQL plans a statement anew before it takes a plan for all that come.
OFTEN = 12


@pytest.fixture
def parents():
    """A table of rows and one that points at it, both looked at by vacuum while empty."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE plan_parent (id bigint PRIMARY KEY)")
        cursor.execute(
            "CREATE TABLE plan_child (id bigint PRIMARY KEY, parent bigint REFERENCES plan_parent)"
        )
        cursor.execute("VACUUM ANALYZE plan_parent")
        yield cursor
        cursor.execute("DROP TABLE plan_child; DROP TABLE plan_parent")


def add(cursor, rows: int) -> None:
    cursor.execute("INSERT INTO plan_parent SELECT generate_series(1, %s)", [rows])
    cursor.execute("INSERT INTO plan_child SELECT n, n FROM generate_series(1, %s) n", [rows])


def test_many_rows_after_few_are_checked_by_their_index(parents):
    for _ in range(OFTEN):
        with transaction.atomic():
            add(parents, 1)
            transaction.set_rollback(True)
    with transaction.atomic():
        before = _read_whole(parents)
        add(parents, MANY)
        assert _read_whole(parents) - before < MANY, "each check read the table from its beginning"


def _read_whole(cursor) -> int:
    """Rows of the parents' table that this transaction has read without its index."""
    cursor.execute(
        "SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'plan_parent'"
    )
    return int(cursor.fetchone()[0])
