"""Long lists a part at a time: `?page=2`, as people turn the leaves of a book."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, QueryDict

from portal.forms.filters import WatchedQuery

ROWS = 100
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Leaf:
    """As long as the whole list, so that headings count all of it; going through it gives the rows
    from `first` to `last`. `previous` and `following` are the queries of its neighbours."""

    rows: Sequence[Any]
    first: int
    last: int
    total: int
    previous: str = ""
    following: str = ""

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def made(self, make: Callable[[Any], Any]) -> Leaf:
        """The same leaf with what `make` makes of each of its rows."""
        return replace(self, rows=[make(row) for row in self.rows])


def leaf_of(request: HttpRequest, rows: Iterable[Any], name: str, *, size: int = ROWS) -> Leaf:
    """The part of `rows` that parameter `name` asks for; the last one if there are not so many."""
    # Read whole: counting first would be one statement more for each list.
    page = Paginator(list(rows), size).get_page(_number(request, name))
    return Leaf(
        list(page),
        page.start_index(),
        page.end_index(),
        page.paginator.count,
        query_with(request, name, page.previous_page_number()) if page.has_previous() else "",
        query_with(request, name, page.next_page_number()) if page.has_next() else "",
    )


def _number(request: HttpRequest, name: str) -> int:
    value = request.GET.get(name, "")
    if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS and int(value):
        return int(value)
    if value and isinstance(request.GET, WatchedQuery):
        request.GET.note_odd(name, "give the number of a page, 1 for the first")
    return 1


def query_with(request: HttpRequest, name: str, value: object) -> str:
    """The page's own query with another value of this parameter, without it where the value is
    empty; fragments are no part of an address."""
    query = QueryDict(request.META.get("QUERY_STRING", ""), mutable=True)
    query.pop("part", None)
    if value == "":
        query.pop(name, None)
    else:
        query[name] = str(value)
    return f"?{query.urlencode()}"
