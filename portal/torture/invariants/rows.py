"""Which tables the checker reads, and what of them nobody looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.invariants import rows
from scheduler.invariants.rows import Row

OF_ACCOUNTS = ("team", "project", "apitoken")
# Where bookings were and what came of due times, as `people/limits.py` lets the database note it.
OF_HARNESS = ("torture_booked", "torture_run", "torture_due")
TABLES = (
    *"job attempt placement allocation device node devicesegment usageentry jobevent".split(),
    *"nodeevent logchunk submitkey account quota budget budgethold budgettrueup booking".split(),
    *"outboundmail delivery dependency idlewarning notification waitingnews webhook".split(),
    *"jobschedule jobschedulerun jobset pool".split(),
    *OF_ACCOUNTS,
    *OF_HARNESS,
)
# Wide, and no invariant looks at them.
LEFT_OUT = frozenset({"spec", "standing", "code_patch", "token_hash", "sealed", "document"})


def source_of(table: str) -> str:
    """The name that the database has for it."""
    if table in OF_HARNESS:
        return table
    return f"{'accounts' if table in OF_ACCOUNTS else 'scheduler'}_{table}"


def plain(row: Mapping[str, Any]) -> Row:
    """A row without what nobody looks at."""
    return rows.plain({name: value for name, value in row.items() if name not in LEFT_OUT})
