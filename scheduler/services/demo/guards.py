"""The database's guards of append-only tables, at rest within one transaction.

Only the removal of a demonstration does this; whatever fails inside brings the guards back with the
transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connection


@contextmanager
def unguarded(tables: Sequence[str]) -> Iterator[None]:
    """Let the triggers of these tables rest. Needs the tables' owner, and an open transaction."""
    rest = _rest_on_postgres if connection.vendor == "postgresql" else _rest_on_sqlite
    with rest(tables):
        yield


@contextmanager
def _rest_on_postgres(tables: Sequence[str]) -> Iterator[None]:
    with connection.cursor() as cursor:
        # A table with checks that are still due cannot be altered; the deletes need them late.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        yield
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in tables:
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


@contextmanager
def _rest_on_sqlite(tables: Sequence[str]) -> Iterator[None]:
    """SQLite cannot disable a trigger: it is dropped and made again from its own words."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'")
        found = [(name, words) for name, table, words in cursor.fetchall() if table in tables]
        for name, _ in found:
            cursor.execute(f"DROP TRIGGER {name}")
        yield
        for _, words in found:
            cursor.execute(words)
