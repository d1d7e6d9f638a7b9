"""Many new rows of one table, without a model instance for each.

Django takes longer to prepare such a row than the database to store it, and a cycle that fills a
cluster adds one for every device, twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Model

from scheduler.services.rows.updating import Saver

# Where the database sets no limit of its own.
_MOST_VALUES = 20_000


def add_rows(model: type[Model], fields: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Add rows of plain values of these fields, keys instead of what relations point to.

    Equals `bulk_create` of instances with these fields; the others have to be empty by default,
    and the new keys are not read back. Takes no expressions.
    """
    if not rows:
        return
    table, savers = _table(connection.vendor, model, fields)
    columns = zip(savers, zip(*rows, strict=True), strict=True)
    ready = list(zip(*(map(_Saving(save), column) for save, column in columns), strict=True))
    with connection.cursor() as cursor:
        for part in _parts(ready, len(fields)):
            values = ", ".join([f"({', '.join(['%s'] * len(fields))})"] * len(part))
            cursor.execute(f"{table} VALUES {values}", [value for row in part for value in row])


class _Saving:
    """What prepares the values of one column, equal ones once."""

    def __init__(self, save: Saver) -> None:
        self._save = save
        self._known: dict[Any, Any] = {}

    def __call__(self, value: Any) -> Any:
        # Numbers and nothing are stored as they are.
        if value is None or type(value) is int:
            return value
        if value not in self._known:
            plain = value.value if isinstance(value, Enum) else value
            self._known[value] = self._save(plain, connection)
        return self._known[value]


def _parts(rows: list[tuple[Any, ...]], width: int) -> Iterator[list[tuple[Any, ...]]]:
    """As many rows as one statement takes."""
    size = max(1, (connection.features.max_query_params or _MOST_VALUES) // width)
    return (rows[first : first + size] for first in range(0, len(rows), size))


@lru_cache(maxsize=64)
def _table(
    _vendor: str, model: type[Model], fields: tuple[str, ...]
) -> tuple[str, tuple[Saver, ...]]:
    """Where the rows go, and what prepares each of their values."""
    quote = connection.ops.quote_name
    found = [model._meta.get_field(name) for name in fields]
    names = ", ".join(quote(str(field.column)) for field in found)  # type: ignore[union-attr]
    savers = tuple(field.get_db_prep_save for field in found)  # type: ignore[union-attr]
    return f"INSERT INTO {quote(model._meta.db_table)} ({names})", savers
