"""Lists in pages, newest first or by a column, by a signed cursor that only its own reader can use.

A cursor names the last row seen, so rows that arrive meanwhile neither repeat nor skip any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.core import signing
from django.db.models import Model, QuerySet
from rest_framework.request import Request

from portal.api.errors import BadRequest
from portal.api.operations import Query, whole
from portal.forms.grammar.sorts import Sort, read_place, read_sort, write_place
from scheduler.selectors.ordered.ordering import (
    NUMBER,
    Column,
    Place,
    page_in_order,
    place_of,
)

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
NEWEST = Sort("number", NUMBER, falls=True)
_SALT = "api.cursor"

PAGE_QUERY = (
    Query("limit", int, f"How many rows, 1 to {MAX_LIMIT}; {DEFAULT_LIMIT} by default."),
    Query("cursor", str, "Where to go on: next_cursor of the page before."),
)

Row = TypeVar("Row", bound=Model)
Mark = TypeVar("Mark")


def page_of(
    request: Request,
    rows: QuerySet[Row],
    show: Callable[[list[Row]], list[dict[str, Any]]],
    sort: Sort = NEWEST,
) -> dict[str, Any]:
    """`{"items": […], "next_cursor": str | None}`; raises BadRequest for a bad limit or cursor."""
    limit = whole(request, "limit", DEFAULT_LIMIT, low=1, high=MAX_LIMIT)
    after = _read_cursor(request, sort)
    found = page_in_order(rows, sort.column, falls=sort.falls, after=after, limit=limit + 1)
    page, has_more = found[:limit], len(found) > limit
    return {
        "items": show(page),
        "next_cursor": _write_cursor(request, page[-1], sort) if has_more else None,
    }


def sort_of(request: Request, columns: Mapping[str, Column], usual: str) -> Sort:
    """`?sort=` as on the page; raises BadRequest naming it."""
    problems: list[str] = []
    sort = read_sort(request.query_params.get("sort", ""), columns, usual, problems)
    if problems:
        said = problems[0].removeprefix("sort: ")
        raise BadRequest(said[0].upper() + said[1:], code="bad_query", errors=[("sort", said)])
    return sort


def write_mark(request: Request, mark: object, path: str = "") -> str:
    """A signed cursor for this reader of this list; `path` is the list's where it is not asked."""
    return signing.dumps([request.user.pk, _filters(request, path), mark], salt=_SALT)


def read_mark(request: Request, understand: Callable[[Any], Mark], path: str = "") -> Mark | None:
    """What the cursor sent along says, None without one; raises BadRequest for another list's.

    `understand` raises ValueError or TypeError for what is no mark of this kind of list.
    """
    text = request.query_params.get("cursor", "")
    if not text:
        return None
    refusal = BadRequest(
        "The cursor is not valid for this list. Start again without one.",
        code="invalid_cursor",
        errors=[("cursor", "is not valid for this list; start again without one")],
    )
    try:
        user_pk, filters, mark = signing.loads(text[:1000], salt=_SALT)
        place = understand(mark)
    except (signing.BadSignature, ValueError, TypeError):
        raise refusal from None
    if user_pk != request.user.pk or filters != _filters(request, path) or place is None:
        raise refusal
    return place


def _filters(request: Request, path: str) -> str:
    """Fingerprint of everything but the paging itself: a cursor belongs to one list."""
    sent = sorted(
        (name, value)
        for name, value in request.query_params.items()
        if name not in ("cursor", "limit")
    )
    return hashlib.sha256(repr((path or request.path, sent)).encode()).hexdigest()[:16]


def _write_cursor(request: Request, row: Any, sort: Sort) -> str:
    return write_mark(request, write_place(sort, place_of(row, sort.column)))


def _read_cursor(request: Request, sort: Sort) -> Place | None:
    return read_mark(request, lambda mark: read_place(mark, sort))
