"""Rows of a query as columns, and names as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from django.db import connection
from django.utils.dateparse import parse_datetime
from django.utils.timezone import make_aware

from scheduler.engine.snapshot import NONE, Ints, Waiting, flags, ints
from scheduler.engine.snapshot.columns import sorted_groups, stable_order

Columns: TypeAlias = dict[str, Any]


class ModelRows:
    """Numbers for device models, in the order they are met, after those `known` already."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._row: dict[str, int] = {name: row for row, name in enumerate(known)}

    def of(self, name: str) -> int:
        return self._row.setdefault(name, len(self._row))

    def wanted(self, name: str) -> int:
        """The row of the model a job asks for; an empty name takes any."""
        return self.of(name) if name else NONE

    def rows(self) -> dict[str, int]:
        """The row of each model met so far."""
        return dict(self._row)

    def names(self) -> tuple[str, ...]:
        return tuple(self._row)


def looked_up(values: Iterable[Any], row_of: Callable[[Any], int]) -> Ints:
    """The column of what `row_of` says of each value; it is asked once for equal ones.

    In the order in which they come first, so that it may number them as they are met.
    """
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    known = {value: row_of(value) for value in dict.fromkeys(values)}
    return ints(list(map(known.__getitem__, values)))


def rows_of_ids(row_of: Callable[..., int], *columns: Ints) -> Ints:
    """As `looked_up`, for columns of ids: of one or, together, of several. Equals a look at every
    row; sorting tells equal ones in less time than asking a dictionary for each."""
    groups, firsts = _numbered(columns[0])
    for column in columns[1:]:
        inner, found = _numbered(column)
        groups, firsts = _numbered(groups * len(found) + inner)
    rows = ints(np.zeros(len(firsts)))
    # In the order in which they come first.
    for group in np.argsort(firsts).tolist():
        rows[group] = row_of(*(int(column[firsts[group]]) for column in columns))
    return ints(rows[groups])


def _numbered(values: Ints) -> tuple[Ints, Ints]:
    """By row the number of its value among all there are; where each of these comes first."""
    order, bounds = sorted_groups(values)
    groups = ints(np.zeros(len(values)))
    groups[order] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return groups, ints(order[bounds[:-1]])


@lru_cache(8192)
def seconds_of(text: str) -> float:
    """A moment of a JSON text as the database writes it, in seconds since 1970."""
    moment = parse_datetime(text)
    if moment is None:
        raise ValueError(f"the database holds a moment that is none: {text!r}")
    # As the driver would have it read.
    aware = moment if moment.tzinfo else make_aware(moment, connection.timezone)
    return aware.timestamp()


def columns_of(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> Columns:
    """The values of each field, by its name; empty columns for no rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return dict(zip(names, columns, strict=True))


def with_cells(waiting: Waiting, cells: Mapping[str, Mapping[int, Any]]) -> Waiting:
    """The jobs with these values instead."""
    if not any(cells.values()):
        return waiting
    by_id = stable_order(waiting.id)
    ids = waiting.id[by_id]
    columns: dict[str, Any] = dict(waiting.columns())
    for name, values in cells.items():
        asked = ints(list(values))
        # Of a job that is there twice the last one.
        place = np.searchsorted(ids, asked, side="right") - 1
        here = flags(ids[place] == asked) if len(ids) else flags(np.zeros(len(asked)))
        if here.any():
            column = columns[name].copy()
            column[by_id[place[here]]] = np.array(list(values.values()))[here]
            columns[name] = column
    return Waiting(**columns)
