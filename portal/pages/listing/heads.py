"""Heads of columns that put their table in order when they are pressed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portal.forms.grammar.sorts import Sort
from scheduler.selectors.ordered.ordering import Column


@dataclass(frozen=True, slots=True)
class Head:
    """`to`: the order that a press gives; `aria`: how the column stands now, empty for not."""

    to: str
    aria: str


def heads_of(sort: Sort, columns: Mapping[str, Column]) -> dict[str, Head]:
    """A head by the name of each column; the column in use turns around."""
    heads = {}
    for name, column in columns.items():
        is_used = name == sort.name
        falls = not sort.falls if is_used else column.falls_first
        aria = ("descending" if sort.falls else "ascending") if is_used else ""
        heads[name] = Head(f"{'-' if falls else ''}{name}", aria)
    return heads
