"""Histories that only grow: the newest of them, and those before a place, `?older=…`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest

from portal.forms.filters import WatchedQuery, read_cursor, write_cursor
from portal.pages.listing.leaves import query_with


@dataclass(frozen=True, slots=True)
class Tail:
    """As long as what is shown of it; `older` and `newest` are the queries that lead on and back,
    empty where there is nothing."""

    rows: Sequence[Any]
    older: str = ""
    newest: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def made(self, make: Callable[[Any], Any]) -> Tail:
        """The same rows as `make` makes them."""
        return replace(self, rows=[make(row) for row in self.rows])


def tail_of(
    request: HttpRequest,
    read: Callable[[int | None, int], Iterable[Any]],
    *,
    size: int,
    name: str = "older",
) -> Tail:
    """What `read` gives of the rows before an id (None: of all), the newest first, so many of them
    at most; it is asked for one more, to know whether there is any."""
    before = _before(request, name)
    found = list(read(before, size + 1))
    rows = found[:size]
    older = query_with(request, name, write_cursor(rows[-1].pk)) if len(found) > size else ""
    return Tail(rows, older, query_with(request, name, "") if before else "")


def _before(request: HttpRequest, name: str) -> int | None:
    try:
        return read_cursor(request.GET.get(name, ""))
    except ValueError:
        if isinstance(request.GET, WatchedQuery):
            request.GET.note_odd(name, "these are the newest")
        return None
