"""Rows as invariants read them: plain values by column, moments as epoch seconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from portal.torture.history import Row

OF_ACCOUNTS = ("team", "project")
TABLES = (
    *"job attempt placement allocation device node devicesegment usageentry jobevent".split(),
    *"nodeevent logchunk submitkey account quota budget budgethold budgettrueup booking".split(),
    *"outboundmail delivery".split(),
    *OF_ACCOUNTS,
)
# Wide, and no invariant looks at them.
LEFT_OUT = frozenset({"spec", "standing", "code_patch", "triage", "body", "text"})


def source_of(table: str) -> str:
    """The name that the database has for it."""
    return f"{'accounts' if table in OF_ACCOUNTS else 'scheduler'}_{table}"


def plain(row: Mapping[str, Any]) -> Row:
    """A row without what nobody looks at."""
    return {name: _value(value) for name, value in row.items() if name not in LEFT_OUT}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return str(value) if isinstance(value, Decimal) else value
