"""Whole tables as the checker of the torture reads them, by the models and within a transaction."""

from __future__ import annotations

from collections.abc import Iterable

from django.apps import apps

from portal.torture.invariants.rows import LEFT_OUT, OF_ACCOUNTS, OF_HARNESS, TABLES, plain
from scheduler.invariants.rows import Row


def read_whole(tables: Iterable[str] = TABLES) -> dict[str, list[Row]]:
    """For a database that is small; without what the harness lets PostgreSQL note."""
    return {table: [] if table in OF_HARNESS else _read(table) for table in tables}


def _read(table: str) -> list[Row]:
    model = apps.get_model("accounts" if table in OF_ACCOUNTS else "scheduler", table)
    names = [one.attname for one in model._meta.concrete_fields]
    rows = model._default_manager.order_by()
    return [plain(row) for row in rows.values(*(n for n in names if n not in LEFT_OUT))]
