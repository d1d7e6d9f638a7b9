"""Rows as one text each hundreds of them, put together by the database: equal text, equal rows.

A text is compared in no time, and only those that differ from the last time are taken apart.
Nobody has to say that something changed, and no row is missed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db.models import Aggregate, F, QuerySet, TextField, Value

# Rows of one text: its numbers share all but the last digits of their ids.
CHUNK = 256


class RowsText(Aggregate):
    """The rows as a JSON array of arrays."""

    output_field = TextField()
    allow_distinct = False

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As SQLite writes it."""
        template = "JSON_GROUP_ARRAY(JSON_ARRAY(%(expressions)s))"
        return super().as_sql(compiler, connection, template=template, **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """As PostgreSQL writes it."""
        template = "JSON_AGG(JSON_BUILD_ARRAY(%(expressions)s))::text"
        return super().as_sql(compiler, connection, template=template, **context)


def texts_of(rows: QuerySet[Any], fields: Sequence[str]) -> dict[int, str]:
    """A text for each chunk of ids that has some. One query."""
    chunks = rows.order_by().annotate(chunk=F("pk") / CHUNK).values("chunk")
    return dict(chunks.annotate(text=RowsText(*fields)).values_list("chunk", "text"))


def as_text(rows: QuerySet[Any], fields: Sequence[str]) -> QuerySet[Any, tuple[str | None]]:
    """All of them as one text, as a query that is still to be asked; PostgreSQL says NULL where
    there are none."""
    # A constant beside it, so that nothing is grouped by: one row whatever there is.
    alone = rows.order_by().annotate(alone=Value(1)).values("alone")
    return alone.annotate(text=RowsText(*fields)).values_list("text")


def rows_of(text: str | None) -> list[list[Any]]:
    """The rows again, by the first field."""
    return sorted(json.loads(text or "[]"), key=lambda row: row[0])
