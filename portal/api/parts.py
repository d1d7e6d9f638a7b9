"""Lists that have an order of their own, a part at a time.

Their rows come from the database or were put together in Python. A cursor names the last row that
was sent and how many there were until then, so that what arrives or goes meanwhile neither repeats
nor skips any other. Whoever asks for no cursor gets as much as fits one answer: programs that read
such a list as a whole, as it was once sent, go on doing so until it is longer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request

from portal.api.operations import Query, whole
from portal.api.pagination import MAX_LIMIT, read_mark, write_mark

PART_QUERY = (
    Query("limit", int, f"How many rows, 1 to {MAX_LIMIT}; {MAX_LIMIT} by default."),
    Query("cursor", str, "Where to go on: next_cursor of the answer before."),
)


class Part(serializers.Serializer[Any]):
    """What such a list says beside its rows: where the next part begins, null at the end."""

    next_cursor = serializers.CharField(allow_null=True)


def part_of(
    request: Request,
    rows: Iterable[Any],
    show: Callable[[list[Any]], Any],
    *,
    key: Callable[[Any], object] = lambda row: row.pk,
    path: str = "",
) -> dict[str, Any]:
    """`{"items": […], "next_cursor": str | None}`; raises BadRequest for a bad limit or cursor.

    `key` tells the rows of the list apart. `path` is the list's own, for the answers to changes
    that are asked for elsewhere. Of a query that was not read yet the database gives this part.
    """
    limit = whole(request, "limit", MAX_LIMIT, low=1, high=MAX_LIMIT)
    listed = rows if isinstance(rows, QuerySet) else list(rows)
    mark = read_mark(request, _place, path)
    sent, found = _behind(listed, key, mark, limit + 1) if mark else (0, list(listed[: limit + 1]))
    page = found[:limit]
    following = None
    if len(found) > limit:
        following = write_mark(request, [sent + limit, str(key(page[-1]))], path)
    return {"items": show(page), "next_cursor": following}


def reach_of(request: Request, path: str = "") -> int:
    """How many rows from the first one on a part may need, for lists that are put in order anew
    each time."""
    mark = read_mark(request, _place, path)
    return (mark[0] if mark else 0) + MAX_LIMIT + 1


def _place(mark: Any) -> tuple[int, str]:
    """How many were sent, and the last of them; raises ValueError or TypeError."""
    sent, last = mark
    if not isinstance(sent, int) or not isinstance(last, str):
        raise ValueError
    return sent, last


def _behind(
    rows: Any, key: Callable[[Any], object], mark: tuple[int, str], most: int
) -> tuple[int, list[Any]]:
    """How many stand before the next part now, and its rows."""
    sent, last = mark
    found = list(rows[sent - 1 : sent + most])
    if found and str(key(found[0])) == last:
        return sent, found[1:]
    # Something came or went before it. If it went itself, what stood behind it has come forward.
    keys = [str(key(row)) for row in rows]
    begin = keys.index(last) + 1 if last in keys else sent - 1
    return begin, list(rows[begin : begin + most])
