"""How many rows queries have, as columns of another statement whose text is made once.

What a person may see takes Django a hundred times as long to write down as the database takes to
count it, and every page counts the same few things.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Expression, IntegerField, QuerySet

Asker = TypeVar("Asker")

# Texts of a few kilobytes each; beyond so many all are made anew.
MOST_KEPT = 512


class RowCount(Expression):
    """The number of a query's rows; it names nothing of the statement around it."""

    template = "(SELECT COUNT(*) FROM (%s) AS rows_)"

    def __init__(self, sql: str, params: tuple[Any, ...]) -> None:
        super().__init__(output_field=IntegerField())
        self.sql, self.params = sql, params

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        """As it was written down; nothing can be where no statement was."""
        return (self.template.replace("%s", self.sql, 1) if self.sql else "0"), self.params


class CountsOnce(Generic[Asker]):
    """The numbers of several queries by their names, written down once for each key."""

    def __init__(self, build: Callable[[Asker], Mapping[str, QuerySet[Any, Any]]]) -> None:
        self._build = build
        self._kept: dict[tuple[str, Hashable], Mapping[str, RowCount]] = {}

    def along(self, asker: Asker, key: Hashable | None) -> Mapping[str, RowCount]:
        """As columns. All of the asker that the queries depend on has to be in the key; with None
        they are written down anew."""
        place = (connection.vendor, key)
        found = self._kept.get(place) if key is not None else None
        if found is None:
            found = {name: _written_down(rows) for name, rows in self._build(asker).items()}
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            if key is not None:
                self._kept[place] = found
        return found


def _written_down(rows: QuerySet[Any, Any]) -> RowCount:
    asked: Any = rows.values("pk").query
    try:
        sql, params = asked.get_compiler(connection=connection).as_sql()
    except EmptyResultSet:
        return RowCount("", ())
    return RowCount(sql, tuple(params))
