"""Many small reads asked as one statement, one way to the database instead of one for each.

    with asked_together([(NODES, ()), (BOOKINGS, (now,))]):
        ...  # whoever reads these in here, with these values, has them already

The statement puts the rows of all one below another, each with the number of its read before it and
nothing behind it up to the width of the widest. It gives what reading them one by one gives, in
their order, and as of one moment, which one by one they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import (
    BooleanField,
    CharField,
    DateTimeField,
    Field,
    FloatField,
    ForeignKey,
    IntegerField,
    JSONField,
    QuerySet,
    TextField,
)

from accounts.statements.built import FOUND, AskedOnce, Built, Value, given_to, made_of

Asked = tuple[AskedOnce, tuple[Value, ...]]
# SQLite puts at most 500 statements together; more are asked in parts, each as of its own moment.
AT_ONCE = 400
# PostgreSQL wants one type for what stands one below another: text, taken apart again by these.
_FROM_TEXT: tuple[tuple[type[Field[Any, Any]], Callable[[str], Any]], ...] = (
    (BooleanField, lambda text: text == "true"),
    (IntegerField, int),
    (FloatField, float),
    (DateTimeField, lambda text: datetime.fromisoformat(text).astimezone(UTC)),
    # Django's own reader of JSON takes text.
    (JSONField, str),
    (CharField, str),
    (TextField, str),
)


@contextmanager
def asked_together(asked: Sequence[Asked]) -> Iterator[None]:
    """Read all of these now, in one statement; who changes them in the block does not see that.

    Raises TypeError for a column of a type that it cannot carry.
    """
    known = FOUND.get()
    FOUND.set({**(known or {}), **_rows_of(asked)})
    try:
        yield
    finally:
        FOUND.set(known)


def _rows_of(asked: Sequence[Asked]) -> dict[Asked, list[tuple[Any, ...]]]:
    built = [one.built(values) for one, values in asked]
    rows = _answered(
        built, [given_to(one, its) for one, (_, its) in zip(built, asked, strict=True)]
    )
    return dict(zip(asked, rows, strict=True))


def read_together(*queries: QuerySet[Any, Any]) -> list[list[Any]]:
    """What each of these gives, objects or tuples of `values_list`, in one statement.

    They are built anew each time. Raises TypeError as `asked_together`.
    """
    built: dict[int, Built] = {}
    params = []
    for place, query in enumerate(queries):
        compiler: Any = query.query.get_compiler(query.db)
        # A query that Django sees is about nothing has no statement.
        with suppress(EmptyResultSet):
            sql, given = compiler.as_sql()
            built[place] = Built(str(sql), [], query, compiler)
            params.append(list(given))
    rows = dict(zip(built, _answered(list(built.values()), params), strict=True))
    return [
        made_of(built[place], rows[place]) if place in built else []
        for place in range(len(queries))
    ]


def _answered(
    built: Sequence[Built], params: Sequence[Sequence[Any]]
) -> list[list[tuple[Any, ...]]]:
    found: list[list[tuple[Any, ...]]] = []
    for first in range(0, len(built), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        found += _in_one(built[some], params[some])
    return found


def _in_one(built: Sequence[Built], params: Sequence[Sequence[Any]]) -> list[list[tuple[Any, ...]]]:
    readers = [_readers(one) for one in built]
    width = max(map(len, readers))
    parts = []
    if connection.vendor == "sqlite":
        # SQLite would read the types of a first part into the columns of all; this one has none.
        parts.append(f"SELECT -1{', NULL' * width} WHERE 0")
    for number, one in enumerate(built):
        parts.append(_part(number, one, len(readers[number]), width))
    found: list[list[tuple[Any, ...]]] = [[] for _ in built]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), [one for given in params for one in given])
        for row in cursor.fetchall():
            found[row[0]].append(row[1 : 1 + len(readers[row[0]])])
    if connection.vendor == "sqlite":
        # As it is stored; Django's own readers make moments, flags and JSON of it.
        return found
    return [[_row(row, its) for row in rows] for rows, its in zip(found, readers, strict=True)]


# Nothing but what Django made of queries is put together here; values go beside.
def _part(number: int, one: Built, own: int, width: int) -> str:
    pad = ", NULL" * (width - own)
    if connection.vendor == "sqlite":
        # With a limit its order is kept, though nobody outside asks for one.
        limit = "" if one.query.query.is_sliced else " LIMIT -1"
        return f"SELECT {number}, q.*{pad} FROM ({one.sql}{limit}) AS q"  # noqa: S608 - our own statements
    names = [f"c{place}" for place in range(own)]
    texts = ", ".join(f"{name}::text" for name in names)
    pad = ", NULL::text" * (width - own)
    source = f"({one.sql} OFFSET 0) AS q({', '.join(names)})"
    return f"SELECT {number}, {texts}{pad} FROM {source}"  # noqa: S608 - our own statements


def _readers(one: Built) -> list[Callable[[str], Any]]:
    return [_reader(expression.output_field) for expression, _, _ in one.compiler.select]


def _reader(field: Field[Any, Any]) -> Callable[[str], Any]:
    while isinstance(field, ForeignKey):
        field = field.target_field
    for kind, reader in _FROM_TEXT:
        if isinstance(field, kind):
            return reader
    raise TypeError(f"{field} cannot be asked together with others")


def _row(row: Sequence[Any], readers: Sequence[Callable[[str], Any]]) -> tuple[Any, ...]:
    return tuple(
        None if text is None else read(text) for text, read in zip(row, readers, strict=True)
    )
