"""Long lists a part at a time: `?page=2`, as people turn the leaves of a book."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, QuerySet, Window
from django.db.models.query import ModelIterable
from django.http import HttpRequest, QueryDict

from portal.forms.filters import WatchedQuery

ROWS = 100
_MOST_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Leaf:
    """As long as the whole list, so that headings count all of it; going through it gives the rows
    from `first` to `last`. `previous` and `following` are the addresses of its neighbours."""

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

    def made_together(self, make: Callable[[Sequence[Any]], Sequence[Any]]) -> Leaf:
        """The same leaf with what `make` makes of all its rows, as many and in their order."""
        return replace(self, rows=make(self.rows))


def leaf_of(request: HttpRequest, rows: Iterable[Any], name: str, *, size: int = ROWS) -> Leaf:
    """The part of `rows` that parameter `name` asks for; the last one if there are not so many.

    Of what is not read yet the database gives that part alone, and says how long the whole is.
    """
    number = _number(request, name)
    if isinstance(rows, QuerySet) and _can_be_counted_along(rows):
        found, number, total = _cut(rows, number, size)
    else:
        page = Paginator(list(rows), size).get_page(number)
        found, number, total = list(page), page.number, page.paginator.count
    first = (number - 1) * size
    # What answers a form may stand at another address, such as where the password was asked again.
    path = request.path if request.method == "POST" else ""
    return Leaf(
        found,
        first + 1 if total else 0,
        first + len(found),
        total,
        path + query_with(request, name, number - 1) if number > 1 else "",
        path + query_with(request, name, number + 1) if first + size < total else "",
    )


def _can_be_counted_along(rows: QuerySet[Any]) -> bool:
    """Whether its rows are models, each as it stands in its table, and were not read yet."""
    query = rows.query
    is_plain = not (query.distinct or query.group_by or query.combinator or query.is_sliced)
    is_of_models = issubclass(rows._iterable_class, ModelIterable)
    return is_plain and is_of_models and rows._result_cache is None


def _cut(rows: QuerySet[Any], number: int, size: int) -> tuple[list[Any], int, int]:
    """The part, its number, and how many rows there are: one statement unless there is no such."""
    counted = rows.annotate(of_all_=Window(Count("*")))
    found = list(counted[(number - 1) * size : number * size])
    if not found and number > 1:
        number = max(1, -(-rows.count() // size))
        found = list(counted[(number - 1) * size : number * size])
    return found, number, found[0].of_all_ if found else 0


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
