"""One row's guarded UPDATE, or many rows' own values in one; a statement is built once for each set
of columns, not for each row.

Building a statement takes Django longer than SQLite takes to carry it out, and short jobs move
through a dozen of them. The values are prepared by the model's own fields, so the row is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Model

# Whole numbers and nothing are stored as they are; no text and no JSON is given as a number.
_AS_THEY_ARE = frozenset({int, type(None)})
# Makes of a value what the database takes, for the connection it goes to.
Saver = Callable[[Any, Any], Any]


def update_row(
    model: type[Model],
    pk: int,
    fields: Mapping[str, Any],
    *,
    guard: Mapping[str, Any] | None = None,
    raised: Iterable[str] = (),
) -> bool:
    """Write plain values to the row `pk` if it holds what `guard` says; whether it did.

    Equals `model.objects.filter(pk=pk, **guard).update(**fields)`, where each of `raised` goes up
    by one as well; what a relation points to is written as its key. Takes no expressions.
    """
    guard = guard or {}
    sql, savers = _statement(connection.vendor, model, tuple(fields), tuple(guard), tuple(raised))
    values = _prepared(savers, (*fields.values(), pk, *guard.values()))
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return bool(cursor.rowcount)


def update_row_reading(
    model: type[Model], pk: int, fields: Mapping[str, Any], read: tuple[str, ...]
) -> tuple[Any, ...] | None:
    """As `update_row`, answering with the columns `read` as the database has them; None: no row."""
    sql, savers = _statement(connection.vendor, model, tuple(fields), (), (), read)
    with connection.cursor() as cursor:
        cursor.execute(sql, _prepared(savers, (*fields.values(), pk)))
        row: tuple[Any, ...] | None = cursor.fetchone()
        return row


def update_rows(
    model: type[Model], fields: tuple[str, ...], rows: Sequence[tuple[int, Sequence[Any]]]
) -> None:
    """Write to each row, named by its key, its own plain values of these fields.

    Equals `update_row` for each; no key may come twice.
    """
    if len(rows) == 1:
        pk, values = rows[0]
        update_row(model, pk, dict(zip(fields, values, strict=True)))
    elif rows:
        update_rows_reading(model, fields, rows, ())


def update_rows_reading(
    model: type[Model],
    fields: tuple[str, ...],
    rows: Sequence[tuple[int, Sequence[Any]]],
    read: tuple[str, ...],
) -> dict[int, tuple[Any, ...]]:
    """As `update_rows`, with the columns `read` by key as the database has them."""
    head, tail, savers = _many(connection.vendor, model, fields, read)
    one = f"({', '.join(['%s'] * len(savers))})"
    told = prepared_rows(savers, [(pk, *values) for pk, values in rows])
    with connection.cursor() as cursor:
        sql = f"{head} {', '.join([one] * len(rows))}{tail}"
        cursor.execute(sql, [value for row in told for value in row])
        return {pk: tuple(row) for pk, *row in cursor.fetchall()} if read else {}


def prepared_rows(savers: Sequence[Saver], rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The values of each row as the database takes them, equal ones of a column prepared once."""
    columns = zip(savers, zip(*rows, strict=True), strict=True)
    # The connection itself: what stands for it looks for it at each of its uses.
    here = connections[DEFAULT_DB_ALIAS]
    return list(zip(*(_column(save, values, here) for save, values in columns), strict=True))


def _column(save: Saver, values: Sequence[Any], here: Any) -> Iterable[Any]:
    if set(map(type, values)) <= _AS_THEY_ARE:
        return values
    return _made_ready(save, values, here)


def _made_ready(save: Saver, values: Sequence[Any], here: Any) -> Iterator[Any]:
    known: dict[Any, Any] = {}
    for value in values:
        if value is None or isinstance(value, int | dict | list):
            yield _ready(save, value, here)
        else:
            if value not in known:
                known[value] = _ready(save, value, here)
            yield known[value]


def _prepared(savers: Iterable[Saver], values: Iterable[Any]) -> list[Any]:
    here = connections[DEFAULT_DB_ALIAS]
    return [_ready(save, value, here) for save, value in zip(savers, values, strict=True)]


def _ready(save: Saver, value: Any, here: Any) -> Any:
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Model):
        value = value.pk
    return save(value.value if isinstance(value, Enum) else value, here)


@lru_cache(maxsize=256)
def _statement(
    _vendor: str,
    model: type[Model],
    fields: tuple[str, ...],
    guard: tuple[str, ...],
    raised: tuple[str, ...],
    read: tuple[str, ...] = (),
) -> tuple[str, tuple[Saver, ...]]:
    """The statement, and what prepares each of its values."""

    def column(name: str) -> str:
        found = model._meta.get_field(name).column  # type: ignore[union-attr]
        return connection.ops.quote_name(str(found))

    changes = [f"{column(name)} = %s" for name in fields]
    changes += [f"{column(name)} = {column(name)} + 1" for name in raised]
    held = [f"{column(name)} = %s" for name in ("id", *guard)]
    table = connection.ops.quote_name(model._meta.db_table)
    sql = f"UPDATE {table} SET {', '.join(changes)} WHERE {' AND '.join(held)}"  # noqa: S608 - our own names
    sql = f"{sql} RETURNING {', '.join(map(column, read))}" if read else sql
    savers = (model._meta.get_field(name) for name in (*fields, "id", *guard))
    return sql, tuple(field.get_db_prep_save for field in savers)  # type: ignore[union-attr]


@lru_cache(maxsize=32)
def _many(
    vendor: str, model: type[Model], fields: tuple[str, ...], read: tuple[str, ...]
) -> tuple[str, str, tuple[Saver, ...]]:
    """What stands before and behind the values of all rows, and what prepares those of one."""

    def column(name: str) -> str:
        found = model._meta.get_field(name).column  # type: ignore[union-attr]
        return connection.ops.quote_name(str(found))

    found = [model._meta.get_field(name) for name in ("id", *fields)]
    changes = []
    for place, (name, field) in enumerate(zip(fields, found[1:], strict=True)):
        kind = field.cast_db_type(connection)  # type: ignore[union-attr]
        # PostgreSQL takes what stands in VALUES for text unless it is told; SQLite needs no word.
        value = f"CAST(told.v{place} AS {kind})" if vendor == "postgresql" else f"told.v{place}"
        changes.append(f"{column(name)} = {value}")
    names = ", ".join(["k", *(f"v{place}" for place in range(len(fields)))])
    table = connection.ops.quote_name(model._meta.db_table)
    set_to = f"SET {', '.join(changes)} FROM told WHERE {table}.{column('id')} = told.k"
    answer = f" RETURNING {', '.join(map(column, ('id', *read)))}" if read else ""
    savers = tuple(field.get_db_prep_save for field in found)  # type: ignore[union-attr]
    head, tail = f"WITH told ({names}) AS (VALUES", f") UPDATE {table} {set_to}{answer}"
    return head, tail, savers
