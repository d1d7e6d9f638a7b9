"""The numbers that a table gives to its next rows."""

from __future__ import annotations

from django.db import connection
from django.db.models import Model


def raise_numbers(model: type[Model], by: int) -> None:
    """Let the next row of `model` have a number higher by `by` than it would have had, and than any
    row there."""
    table = model._meta.db_table
    highest = f"SELECT coalesce(max(id), 0) FROM {connection.ops.quote_name(table)}"  # noqa: S608 - our own names
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            raised = f"setval(name, greatest(nextval(name), ({highest})) + %s)"
            sequence = "(SELECT pg_get_serial_sequence(%s, 'id') AS name) AS one"
            cursor.execute(f"SELECT {raised} FROM {sequence}", [by, table])  # noqa: S608 - our own names
            return
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        given = [seq for (seq,) in cursor.fetchall()]
        cursor.execute(highest)
        last = max(*given, *cursor.fetchone(), 0)
        cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table])
        cursor.execute(
            "INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, last + by]
        )
