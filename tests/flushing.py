"""Emptying the database after a test with transactions of its own, where it guards its rows.

Django empties SQLite's tables by DELETE, which append-only tables refuse. Their triggers are
dropped by the same list of statements and made again from their own words; PostgreSQL truncates.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.sqlite3.base import DatabaseWrapper

_OPERATIONS: Any = DatabaseWrapper.ops_class
_plain = _OPERATIONS.sql_flush


def _flush_around_triggers(operations: Any, style: Any, tables: Any, **more: Any) -> list[str]:
    statements = _plain(operations, style, tables, **more)
    with operations.connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        found = cursor.fetchall()
    return [
        *(f"DROP TRIGGER {name}" for name, _ in found),
        *statements,
        *(words for _, words in found),
    ]


_OPERATIONS.sql_flush = _flush_around_triggers
