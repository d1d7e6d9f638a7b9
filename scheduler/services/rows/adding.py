"""Many new rows of one table, prepared column by column.

Django takes longer to prepare such a row than the database to store it: a cycle that fills a
cluster adds two for every device, a job that ends another two, and each job has sixty columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from django.db import connection
from django.db.models import DateField, Model

from scheduler.services.rows.updating import Saver, prepared_rows

# Where the database sets no limit of its own.
_MOST_VALUES = 20_000
_Row = TypeVar("_Row", bound=Model)


def add_rows(
    model: type[Model],
    fields: tuple[str, ...],
    rows: Sequence[Sequence[Any]],
    *,
    unless_there: bool = False,
) -> None:
    """Add rows of plain values of these fields, keys instead of what relations point to.

    Equals `bulk_create` of instances with these fields; the others have to be empty by default,
    and the new keys are not read back. `unless_there`: what a constraint forbids is left out. Takes
    no expressions.
    """
    _add(model, fields, rows, "ON CONFLICT DO NOTHING" if unless_there else "")


def add_objects(objects: Iterable[_Row]) -> list[_Row]:
    """Add objects of one model and tell them their keys.

    Equals `bulk_create`. Raises TypeError for a model whose fields fill themselves in; takes no
    expressions.
    """
    new = list(objects)
    if not new:
        return new
    model = type(new[0])
    names, take = _columns(model)
    keys = _add(model, names, list(map(take, new)), f"RETURNING {_quoted(model, 'id')}")
    for one, (key,) in zip(new, keys, strict=True):
        one.pk = key
        one._state.adding, one._state.db = False, connection.alias
    return new


def _add(
    model: type[Model], fields: tuple[str, ...], rows: Sequence[Sequence[Any]], ending: str
) -> list[tuple[Any, ...]]:
    """Add the rows; what they return, if `ending` asks for it."""
    if not rows:
        return []
    table, savers = _table(connection.vendor, model, fields)
    ready = prepared_rows(savers, rows)
    told = list[tuple[Any, ...]]()
    with connection.cursor() as cursor:
        for part in _parts(ready, len(fields)):
            values = ", ".join([f"({', '.join(['%s'] * len(fields))})"] * len(part))
            given = [value for row in part for value in row]
            cursor.execute(f"{table} VALUES {values} {ending}", given)
            told += cursor.fetchall() if ending.startswith("RETURNING") else []
    return told


def _parts(rows: list[tuple[Any, ...]], width: int) -> Iterator[list[tuple[Any, ...]]]:
    """As many rows as one statement takes."""
    size = max(1, (connection.features.max_query_params or _MOST_VALUES) // width)
    return (rows[first : first + size] for first in range(0, len(rows), size))


@lru_cache(maxsize=64)
def _columns(model: type[Model]) -> tuple[tuple[str, ...], attrgetter[Any]]:
    """The fields of a row but its key, and what takes their values from an object."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    for field in fields:
        if isinstance(field, DateField) and (field.auto_now or field.auto_now_add):
            raise TypeError(f"{field} is filled in by itself; add {model.__name__} another way")
    return tuple(field.name for field in fields), attrgetter(*(field.attname for field in fields))


def _quoted(model: type[Model], name: str) -> str:
    return connection.ops.quote_name(str(model._meta.get_field(name).column))  # type: ignore[union-attr]


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
