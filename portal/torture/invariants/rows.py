"""Rows as invariants read them: plain values by column, moments as epoch seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.apps import apps
from django.db.models import Model, QuerySet

from portal.torture.history import Row

_OF_ACCOUNTS = ("team", "project")
TABLES = (
    *"job attempt placement allocation device node devicesegment usageentry jobevent".split(),
    *"nodeevent logchunk submitkey account quota budget budgethold budgettrueup booking".split(),
    *"outboundmail delivery".split(),
    *_OF_ACCOUNTS,
)
# Wide, and no invariant looks at them.
_LEFT_OUT = frozenset({"spec", "standing", "code_patch", "triage", "body", "text"})


def source_of(table: str) -> str:
    """The name that the database has for it."""
    return f"{'accounts' if table in _OF_ACCOUNTS else 'scheduler'}_{table}"


def plain(row: Mapping[str, Any]) -> Row:
    """A row without what nobody looks at."""
    return {name: _value(value) for name, value in row.items() if name not in _LEFT_OUT}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return str(value) if isinstance(value, Decimal) else value


def rows_of(table: str) -> QuerySet[Any]:
    """All rows of a table, to be filtered; nothing is read yet."""
    app = "accounts" if table in _OF_ACCOUNTS else "scheduler"
    model: type[Model] = apps.get_model(app, table)
    return model._default_manager.order_by()


def read(rows: QuerySet[Any]) -> list[Row]:
    """What a checker is given of these rows."""
    names = [one.attname for one in rows.model._meta.concrete_fields]
    return [plain(row) for row in rows.values(*(n for n in names if n not in _LEFT_OUT))]


def read_whole(tables: Iterable[str] = TABLES) -> dict[str, list[Row]]:
    """Whole tables, for a database that is small."""
    return {table: read(rows_of(table)) for table in tables}
