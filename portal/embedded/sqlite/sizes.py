"""What SQLite's planner is told of the sizes of tables, as PostgreSQL's autovacuum does there.

Told nothing it takes each value of an index to be rare. Of 200 000 jobs it then reads all that a
person may see, with their specs, and sorts them in order to show fifty. Of a table of which it is
told nothing beside others it takes a million rows, and rather reads 200 000 attempts than look
which of them the twenty idle warnings are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

# What is said of a table of five rows is wrong within the minute in which it has 5 000, and a plan
# for five reads all of them. Of all that are smaller it is said that they are nearly this large.
AT_LEAST = 10_000
GROWN_BY = 1.5

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, 7) != 'sqlite_'"
_IS_KNOWN = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'"
_KNOWN = (
    "SELECT tbl, MAX(CAST(stat AS INTEGER)) AS told FROM sqlite_stat1 "
    "GROUP BY tbl HAVING told >= %s"
)
_TELL = "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (%s, NULL, %s)"


def learn_sizes(connection: BaseDatabaseWrapper) -> list[str]:
    """Analyse each table of SQLite that is large and has grown or shrunk by half since it was last
    analysed, one after the other, and say of all others that they are small, once one is large;
    returns the names of the former. On other databases nothing is done."""
    if connection.vendor != "sqlite":
        return []
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        learnt = list(_changed(cursor, quote))
        for name in learnt:
            cursor.execute(f"ANALYZE {quote(name)}")
        told = _tell_small(cursor)
    if learnt or told:
        _tell_others(connection)
    return learnt


def _tell_small(cursor: Any) -> int:
    """Of how many tables something is said for the first time."""
    if not cursor.execute(_IS_KNOWN).fetchone():
        return 0
    told = {name for (name,) in cursor.execute("SELECT tbl FROM sqlite_stat1").fetchall()}
    every = [name for (name,) in cursor.execute(_TABLES).fetchall()]
    small = [(name, str(AT_LEAST - 1)) for name in every if name not in told]
    cursor.executemany(_TELL, small)
    return len(small)


def _changed(cursor: Any, quote: Callable[[str], str]) -> Iterator[str]:
    known: dict[str, int] = {}
    if cursor.execute(_IS_KNOWN).fetchone():
        known = dict(cursor.execute(_KNOWN, [AT_LEAST]).fetchall())
    for (name,) in cursor.execute(_TABLES).fetchall():
        # The highest number is found at once and is no less than the count, which reads an index.
        if _number(cursor, "MAX(rowid)", quote(name)) < AT_LEAST:
            continue
        rows, before = _number(cursor, "COUNT(*)", quote(name)), known.get(name, 0)
        if rows >= AT_LEAST and not before / GROWN_BY < rows < before * GROWN_BY:
            yield name


def _number(cursor: Any, what: str, table: str) -> int:
    sql = f"SELECT {what} FROM {table}"  # noqa: S608 - the database's own names
    return cursor.execute(sql).fetchone()[0] or 0


def _tell_others(connection: BaseDatabaseWrapper) -> None:
    """Other connections read what is known when the schema has changed, and then alone."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute("CREATE TABLE sizes_learnt (word)")
        cursor.execute("DROP TABLE sizes_learnt")
