"""Rows as invariants read them: plain values by column, moments as epoch seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

Row = Mapping[str, Any]
# The moments of one machine, rounded differently by those who wrote them down.
CLOSE_S = 0.002
FOREVER = float("inf")


class Rows:
    """Rows by the name of their table without its app."""

    tables: Mapping[str, Iterable[Row]]

    def __init__(self, tables: Mapping[str, Iterable[Row]]) -> None:
        self.tables = tables

    def real(self, moment: float) -> float:
        """A moment of the installation by the clock of who asks; the same unless that differs."""
        return moment

    def rows(self, table: str) -> list[Row]:
        """All rows of a table, in the order of their ids."""
        return sorted(self.tables.get(table, ()), key=lambda row: row.get("id", 0))

    def grouped(self, table: str, column: str) -> dict[Any, list[Row]]:
        """The rows of a table by the value of a column."""
        found: dict[Any, list[Row]] = {}
        for row in self.rows(table):
            found.setdefault(row[column], []).append(row)
        return found

    def by_id(self, table: str) -> dict[int, Row]:
        """The rows of a table by their ids."""
        return {row["id"]: row for row in self.rows(table)}


def plain(row: Mapping[str, Any]) -> Row:
    """A row whose moments and amounts are plain."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return str(value) if isinstance(value, Decimal) else value
