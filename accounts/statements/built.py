"""Reads whose statement is built once, not for each call.

Building a statement with joins takes Django ten times as long as SQLite takes to answer it, and a
node's call or a scheduling cycle asks the same few every time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet
from django.db.models.query import ModelIterable
from django.db.models.sql import UpdateQuery

from accounts.statements.making import made_at_once, without_query

# Ids, where it takes some, and then single values: keys, moments and texts.
Build = Callable[..., QuerySet[Any, Any]]
# Its rows, and what to write to them.
Change = Callable[..., tuple[QuerySet[Any, Any], Mapping[str, Any]]]
Value = int | datetime | str
Asker = TypeVar("Asker")
# With all that makes objects of its rows a statement takes 50 to 80 kilobytes.
MOST_KEPT = 128
# Stand-ins, told from real values by where they turn up: two of each kind, because a value that
# the query works out from its arguments must not be taken for a constant.
_IDS = (-(2**40), -(2**41))
_KEYS = (-(2**42), -(2**43))
_TEXTS = ("\x01 the first stand-in", "\x02 the second stand-in")
_MOMENTS = (datetime(1901, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(1907, 8, 9, 10, 11, 12, tzinfo=UTC))


class BuiltOnce:
    """A query with `pk__in` or its like, and perhaps single values beside."""

    def __init__(self, build: Build) -> None:
        self._build = build

    def rows(self, ids: Sequence[int], *values: Value) -> list[tuple[Any, ...]]:
        """The rows of these ids in the query's order, as the database has them.

        The columns must be numbers, text or flags.
        """
        return _answer(_built_for(self._build, _size(ids), values), ids, values) if ids else []

    def read(self, ids: Sequence[int], *values: Value) -> list[Any]:
        """What the query gives for these ids: objects, or tuples of `values_list`."""
        if not ids:
            return []
        built = _built_for(self._build, _size(ids), values)
        return made_of(built, _answer(built, ids, values))


class AskedOnce:
    """A query that takes no ids, only single values."""

    def __init__(self, build: Build) -> None:
        self._build = build

    def read(self, *values: Value) -> list[Any]:
        """What the query gives: objects, or tuples of `values_list`."""
        built, found = self.built(values), FOUND.get()
        rows = found.get((self, values)) if found else None
        return made_of(built, _answer(built, (), values) if rows is None else rows)

    def built(self, values: Sequence[Value]) -> Built:
        """Its statement for values of these types."""
        return _built_for(self._build, None, values)


class AskedOnceFor(Generic[Asker]):
    """A query by who asks, and single values: built once for each key."""

    def __init__(self, build: Callable[..., QuerySet[Any, Any]]) -> None:
        self._build = build
        self._kept: dict[Hashable, Built | None] = {}

    def read(self, asker: Asker, key: Hashable | None, *values: Value) -> list[Any]:
        """What the query gives: objects, or tuples of `values_list`.

        All of the asker that the query depends on has to be in the key; with None it is built anew.
        """
        if key is None:
            return list(self._build(asker, *values))
        kinds = tuple(map(_kind_of, values))
        place: Hashable = (connection.vendor, key, kinds)
        built: Any = self._kept.get(place, self)
        if built is self:
            built = self._built(asker, kinds)
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[place] = built
        return made_of(built, _answer(built, (), values)) if built else []

    def _built(self, asker: Asker, kinds: Sequence[type[Value]]) -> Built | None:
        """None of a query that can have no rows."""
        try:
            built = _checked(partial(self._build, asker), None, kinds)
        except EmptyResultSet:
            return None
        query, maker = without_query(built.query, built.compiler)
        return replace(built, query=query, compiler=maker)


class ChangedOnce:
    """An UPDATE of rows with `pk__in` or its like: `build` gives them as a query of one table, and
    the changes by field as `QuerySet.update` takes them."""

    def __init__(self, build: Change) -> None:
        self._build = build

    def change(self, ids: Sequence[int], *values: Value) -> int:
        """Equals `rows.update(**changes)`; how many rows there were."""
        if not ids:
            return 0
        built = _built_for(self._build, _size(ids), values)
        with connection.cursor() as cursor:
            cursor.execute(built.sql, given_to(built, values, ids))
            return int(cursor.rowcount)


# What was read before anybody asked, by query and values: see `together.py`.
FOUND: ContextVar[dict[tuple[AskedOnce, tuple[Value, ...]], list[tuple[Any, ...]]] | None] = (
    ContextVar("found", default=None)
)


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A statement; for each of its values the place of its id or argument (-1, -2, …), or None:
    itself; and the query with what made the statement."""

    sql: str
    places: list[tuple[int | None, Any]]
    query: QuerySet[Any, Any]
    compiler: Any


def _size(ids: Sequence[int]) -> int:
    """Few sizes make few statements; that an id comes twice changes nothing."""
    return 1 << max(0, len(ids) - 1).bit_length()


def _answer(built: Built, ids: Sequence[int], values: Sequence[Value]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(built.sql, given_to(built, values, ids))
        return list(cursor.fetchall())


def given_to(built: Built, values: Sequence[Value], ids: Sequence[int] = ()) -> list[Any]:
    """The parameters of its statement."""
    told = [_told(value) for value in values]
    last = len(ids) - 1
    return [
        value if of is None else told[-of - 1] if of < 0 else ids[min(of, last)]
        for of, value in built.places
    ]


def made_of(built: Built, rows: list[tuple[Any, ...]]) -> list[Any]:
    """Of rows of the database what the query gives."""
    answered = _Answered(built.compiler, rows)
    if built.query._iterable_class is not ModelIterable:
        return list(answered.results_iter(tuple_expected=True))
    query: Any = SimpleNamespace(
        db=built.query.db, query=answered, model=built.query.model, _known_related_objects={}
    )
    return list(ModelIterable(query))


class _Answered:
    """Stands where Django's own makers of objects look for a query: built and answered already."""

    def __init__(self, compiler: Any, rows: list[tuple[Any, ...]]) -> None:
        self._compiler, self._rows = compiler, rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiler, name)

    def get_compiler(self, using: str) -> _Answered:
        """Of a query."""
        return self

    def execute_sql(self, **_how: Any) -> Iterable[list[tuple[Any, ...]]]:
        """Of a compiler: pieces of the rows."""
        return [self._rows]

    def results_iter(self, *_results: Any, **how: Any) -> Iterator[Any]:
        """Of a compiler: the rows as Python has their values."""
        found: Iterator[Any] = self._compiler.results_iter([self._rows], **how)
        return found


def _told(value: Value) -> Any:
    """As the database is told it."""
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def _built_for(build: Build | Change, size: int | None, values: Sequence[Value]) -> Built:
    return _built(connection.vendor, build, size, tuple(map(_kind_of, values)))


def _kind_of(value: Value) -> type[Value]:
    return next(kind for kind in (datetime, int, str) if isinstance(value, kind))


@lru_cache(maxsize=512)
def _built(
    _vendor: str, build: Build | Change, size: int | None, kinds: tuple[type[Value], ...]
) -> Built:
    return _checked(build, size, kinds)


def _checked(build: Build | Change, size: int | None, kinds: Sequence[type[Value]]) -> Built:
    found = [_marked(build, size, kinds, which) for which in (0, 1)]
    if (found[0].sql, found[0].places) != (found[1].sql, found[1].places):
        raise ValueError("the query works values out from its arguments; it cannot be built once")
    # Of a small number Django knows that none is as far out as a stand-in, and does not ask.
    usual: list[Value] = [
        place + 1 if kind is int else _stand_in(kind, 0, place) for place, kind in enumerate(kinds)
    ]
    ids = [len(kinds) + 1 + place for place in range(size or 0)]
    _, compiler = _compiled(build(*([ids] if size else []), *usual))
    if str(compiler.as_sql()[0]) != found[0].sql:
        raise ValueError("the query drops a number for its size; it cannot be built once")
    return found[0]


def _stand_in(kind: type[Value], which: int, place: int) -> Value:
    if kind is str:
        return f"{_TEXTS[which]} {place}"
    if kind is int:
        return _KEYS[which] - place
    return _MOMENTS[which] + timedelta(days=place)


def _marked(
    build: Build | Change, size: int | None, kinds: Sequence[type[Value]], which: int
) -> Built:
    ids = [_IDS[which] - place for place in range(size or 0)]
    values = [_stand_in(kind, which, place) for place, kind in enumerate(kinds)]
    query, compiler = _compiled(build(*([ids] if size else []), *values))
    sql, params = compiler.as_sql()
    of: dict[Any, int] = {value: place for place, value in enumerate(ids)}
    for place, value in enumerate(values):
        of[value] = of[_told(value)] = -1 - place
    is_told = (int, *{type(_told(value)) for value in values}, datetime)
    places: list[tuple[int | None, Any]] = [
        (of[value], None) if isinstance(value, is_told) and value in of else (None, value)
        for value in params
    ]
    if getattr(compiler, "klass_info", None):
        compiler.klass_info = made_at_once(compiler.klass_info)
    return Built(str(sql), places, query, compiler)


def _compiled(
    asked: QuerySet[Any, Any] | tuple[QuerySet[Any, Any], Mapping[str, Any]],
) -> tuple[QuerySet[Any, Any], Any]:
    """Of a query, or of one with changes to its rows."""
    if isinstance(asked, QuerySet):
        return asked, asked.query.get_compiler(asked.db)
    rows, changes = asked
    update: Any = rows.order_by().query.chain(UpdateQuery)
    update.add_update_values(changes)
    return rows, update.get_compiler(rows.db)
