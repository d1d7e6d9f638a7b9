"""The numbers that a table gives to its next rows."""

from __future__ import annotations

from django.db import connection
from django.db.models import Model


def raise_numbers(model: type[Model], by: int) -> None:
    """Let the next row of `model` have a number above the highest one there by more than `by`."""
    table = model._meta.db_table
    quoted = connection.ops.quote_name(table)
    highest = f"(SELECT coalesce(max(id), 0) + %s FROM {quoted})"  # noqa: S608
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            raised = f"SELECT setval(pg_get_serial_sequence(%s, 'id'), {highest})"
            cursor.execute(raised, [table, by])
            return
        cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table])
        raised = f"INSERT INTO sqlite_sequence (name, seq) SELECT %s, {highest}"
        cursor.execute(raised, [table, by])
