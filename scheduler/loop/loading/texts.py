"""Rows as one text, put together by the database: equal text, equal rows.

A text is compared in no time, and what differs from the last time is all that is taken apart.
Nobody has to say that something changed, and no row is missed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db.models import Aggregate, QuerySet, TextField, Value

from scheduler.engine.snapshot import NONE, ints
from scheduler.loop.loading.columns import Columns


class RowsText(Aggregate):
    """The rows as a JSON array of arrays."""

    output_field = TextField()
    allow_distinct = False
    on_sqlite = "JSON_GROUP_ARRAY(JSON_ARRAY(%(expressions)s))"
    on_postgresql = "JSON_AGG(JSON_BUILD_ARRAY(%(expressions)s))::text"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As SQLite writes it."""
        return super().as_sql(compiler, connection, template=self.on_sqlite, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As PostgreSQL writes it."""
        return super().as_sql(compiler, connection, template=self.on_postgresql, **context)


class LinesText(RowsText):
    """Each row as a line that is a JSON array, in which no line ever breaks."""

    on_sqlite = "GROUP_CONCAT(JSON_ARRAY(%(expressions)s), CHAR(10))"
    on_postgresql = "STRING_AGG(JSON_BUILD_ARRAY(%(expressions)s)::text, CHR(10))"


def as_text(rows: QuerySet[Any], fields: Sequence[str]) -> QuerySet[Any, tuple[str | None]]:
    """All of them as one text, as a query that is still to be asked; PostgreSQL says NULL where
    there are none."""
    return _alone(rows, RowsText(*fields))


def as_lines(rows: QuerySet[Any], fields: Sequence[str]) -> QuerySet[Any, tuple[str | None]]:
    """The same with a line for each row, in no order; NULL where there are none."""
    return _alone(rows, LinesText(*fields))


def _alone(rows: QuerySet[Any], text: RowsText) -> QuerySet[Any, tuple[str | None]]:
    # A constant beside it, so that nothing is grouped by: one row whatever there is.
    alone = rows.order_by().annotate(alone=Value(1)).values("alone")
    return alone.annotate(text=text).values_list("text")


def rows_of(text: str | None) -> list[list[Any]]:
    """The rows again, by the first field."""
    return sorted(json.loads(text or "[]"), key=lambda row: row[0])


def rows_of_lines(lines: Iterable[str]) -> list[list[Any]]:
    """The rows of some lines, in their order."""
    found: list[list[Any]] = json.loads(f"[{','.join(lines)}]")
    return found


@dataclass(slots=True)
class LineMemory:
    """Columns of lines in the order of their ids (`pk`), and the row of each line they are of."""

    make: Callable[[Sequence[str]], Columns]
    _lines: list[str] = field(default_factory=list)
    _row_of: dict[str, int] = field(default_factory=dict)
    _made: Columns | None = None

    def take(self, text: str | None) -> Columns:
        """Equals `make` of all lines of a text, then sorted; only new ones are taken apart."""
        lines = text.split("\n") if text else []
        if self._made is not None and lines == self._lines:
            return self._made
        rows = ints([self._row_of.get(line, NONE) for line in lines])
        are_new = np.flatnonzero(rows == NONE)
        rows[are_new] = np.arange(len(are_new)) + len(self._lines)
        both = new = self.make([lines[at] for at in are_new.tolist()])
        if self._made is not None:
            both = {name: np.concatenate([self._made[name], new[name]]) for name in new}
        by_id = np.argsort(both["pk"][rows], kind="stable")
        self._made = {name: column[rows[by_id]] for name, column in both.items()}
        self._lines = lines
        self._row_of = dict(
            zip([lines[at] for at in by_id.tolist()], range(len(lines)), strict=True)
        )
        return self._made
