"""Rows of other tables as a column: what a page needs beside a row comes with it.

One statement less for each: where a page reads a few short lists, the way to the database and back
takes longer than the lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model, QuerySet, Subquery, TextField
from django.db.models.base import ModelState

Row = TypeVar("Row", bound=Model)


class AsJson(Subquery):
    """The rows of a statement as one JSON text, to be a column of another: a list of their
    `columns`, as a text; empty or NULL where there are none. In no order.

    For numbers, texts and times; not for amounts, which JSON would make floats of.
    """

    output_field = TextField()
    template = "(SELECT json_group_array(json_array(%(columns)s)) FROM (%(subquery)s) AS rows_)"
    on_postgresql = (
        "(SELECT CAST(json_agg(json_build_array(%(columns)s)) AS text) "
        "FROM (%(subquery)s) AS rows_)"
    )

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        """The same where its functions have other names."""
        return self.as_sql(compiler, connection, template=self.on_postgresql, **more)


class Counted(AsJson):
    """Of the rows of a statement how many they are and what some `columns` come to, as one JSON
    text; also of its first so many, which an aggregate cannot have beside others."""

    template = "(SELECT json_array(%(columns)s) FROM (%(subquery)s) AS rows_)"
    on_postgresql = (
        "(SELECT CAST(json_build_array(%(columns)s) AS text) FROM (%(subquery)s) AS rows_)"
    )


def counted(rows: QuerySet[Any, Any], *names: str) -> Counted:
    """How many they are, then the sums of these columns, of whole numbers; `rows_in` reads it."""
    sums = [f'COALESCE(SUM(rows_."{name}"), 0)' for name in names]
    return Counted(rows.values(*(names or ("pk",))), columns=", ".join(["COUNT(*)", *sums]))


def as_rows(rows: QuerySet[Any, Any], *names: str) -> AsJson:
    """These columns of the rows; a way through other tables is a name, too. What is counted by
    groups comes grouped already."""
    chosen = rows if rows.query.group_by else rows.values_list(*names)
    return AsJson(chosen, columns=", ".join(f'rows_."{name}"' for name in names))


def partly_read(model: type[Row], **columns: Any) -> Row:
    """An object of which only these columns were read, its key among them; others are when somebody
    asks. For one that many rows of a statement name: `select_related` makes as many objects."""
    return partly_reading(model, tuple(columns))(columns.values())


def partly_reading(model: type[Row], names: Sequence[str]) -> Callable[[Iterable[Any]], Row]:
    """What makes such an object of the values of these columns, its key among them; values beyond
    them are left alone.

    Equals `model.from_db`, which looks at each column of the model that was not read: of a thousand
    jobs that takes longer than to read them.
    """

    def make(values: Iterable[Any]) -> Row:
        one = model.__new__(model)
        one._state = ModelState()
        one._state.adding, one._state.db = False, DEFAULT_DB_ALIAS
        vars(one).update(zip(names, values, strict=False))
        return one

    return make


def rows_in(text: str | None) -> list[Any]:
    """What the column says; PostgreSQL says NULL where there is no row."""
    return json.loads(text or "[]")


def moment_in(text: str | None) -> Any:
    """A time as either database writes it into JSON, None for none."""
    if text is None:
        return None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
