"""Reads by ids whose statement is built once for each number of them, not for each call.

Building a statement with joins takes Django ten times as long as SQLite takes to answer it, and a
node's call asks the same few every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import QuerySet

Build = Callable[[Sequence[int], datetime], QuerySet[Any, tuple[Any, ...]]]
# Stand-ins, told from real values by where they turn up: two of each kind, because a value that
# the query works out from its arguments must not be taken for a constant.
_IDS = (-(2**40), -(2**41))
_MOMENTS = (datetime(1901, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(1907, 8, 9, 10, 11, 12, tzinfo=UTC))


class BuiltOnce:
    """A query of `values_list` with `pk__in` or its like, and perhaps the time.

    Its columns must be numbers, text or flags: the rows come as the database has them.
    """

    def __init__(self, build: Build) -> None:
        self._build = build

    def rows(self, ids: Sequence[int], now: datetime) -> list[tuple[Any, ...]]:
        """The rows of these ids; in the query's order."""
        if not ids:
            return []
        # Few sizes make few statements; that an id comes twice changes nothing.
        size = 1 << (len(ids) - 1).bit_length()
        padded = [*ids, *([ids[-1]] * (size - len(ids)))]
        sql, places = _built(connection.vendor, self._build, size)
        moment = connection.ops.adapt_datetimefield_value(now)
        values = [value if of is None else moment if of < 0 else padded[of] for of, value in places]
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            return list(cursor.fetchall())


@lru_cache(maxsize=256)
def _built(_vendor: str, build: Build, size: int) -> tuple[str, list[tuple[int | None, Any]]]:
    """The statement, and for each value the place of its id, -1 for the time, or None: itself."""
    found = [_marked(build, size, *marks) for marks in zip(_IDS, _MOMENTS, strict=True)]
    if found[0] != found[1]:
        raise ValueError("the query works values out from its arguments; it cannot be built once")
    return found[0]


def _marked(
    build: Build, size: int, first: int, moment: datetime
) -> tuple[str, list[tuple[int | None, Any]]]:
    ids = [first - place for place in range(size)]
    sql, params = build(ids, moment).query.sql_with_params()
    told = connection.ops.adapt_datetimefield_value(moment)
    places: list[tuple[int | None, Any]] = []
    for value in params:
        if type(value) is int and value in ids:
            places.append((first - value, None))
        elif value in (moment, told):
            places.append((-1, None))
        else:
            places.append((None, value))
    return sql, places
