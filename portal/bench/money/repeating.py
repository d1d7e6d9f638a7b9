"""Months of history out of one closed month: the same books again, straight into the tables."""

from __future__ import annotations

from typing import Any

from django.db import connection

from scheduler.ledger.periods import Month


def repeat_month(last: Month, months: int) -> dict[str, Any]:
    """The same books and statements for the months before; segments are not repeated."""
    period = one("SELECT id FROM scheduler_period WHERE name = %s", str(last))
    close = one("SELECT MAX(id) FROM scheduler_periodclose WHERE period_id = %s", period)
    month = last
    for _ in range(months - 1):
        month = Month.of(month.start_s - 1)
        top = one("SELECT COALESCE(MAX(number), 0) FROM scheduler_ledgerentry")
        copy_rows("scheduler_period", {"name": f"'{month}'"}, "id", period)
        again = one("SELECT id FROM scheduler_period WHERE name = %s", str(month))
        mine = {"period_id": str(again)}
        copy_rows("scheduler_periodclose", mine, "id", close)
        copy_rows("scheduler_usageline", mine, "period_id", period)
        entries = {"service_period_id": str(again), "number": f"number + {top}"}
        copy_rows("scheduler_ledgerentry", {**mine, **entries}, "period_id", period)
        closed = one("SELECT MAX(id) FROM scheduler_periodclose WHERE period_id = %s", again)
        top = one("SELECT COALESCE(MAX(number), 0) FROM scheduler_statement")
        statements = {"close_id": str(closed), "number": f"number + {top}"}
        copy_rows("scheduler_statement", statements, "close_id", close)
    return {
        "months": months,
        "all_lines": one("SELECT COUNT(*) FROM scheduler_usageline"),
        "all_entries": one("SELECT COUNT(*) FROM scheduler_ledgerentry"),
    }


def lengthen(last: Month, rows: int) -> dict[str, Any]:
    """The month's lines again and again until there are so many. Its checks fail from here on."""
    period = one("SELECT id FROM scheduler_period WHERE name = %s", str(last))
    count = "SELECT COUNT(*) FROM scheduler_usageline WHERE period_id = %s"
    while (missing := rows - one(count, period)) > 0:
        copy_rows("scheduler_usageline", {}, "period_id", period, missing)
    return {"rows": one(count, period)}


def copy_rows(table: str, changed: dict[str, str], key: str, value: int, most: int = 2**62) -> None:
    """Rows of a table once more, with some columns as these expressions say."""
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, table)
        names = [column.name for column in described if column.name != "id"]
        values = ", ".join(changed.get(name, f'"{name}"') for name in names)
        listed = ", ".join(f'"{name}"' for name in names)
        cursor.execute(
            f"INSERT INTO {table} ({listed}) SELECT {values} FROM {table} "  # noqa: S608 - our own names
            f"WHERE {key} = %s ORDER BY id LIMIT %s",
            [value, most],
        )


def one(statement: str, *values: Any) -> int:
    """A number."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.fetchone()[0])
