"""Rows of a query as columns, and names as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from scheduler.engine.snapshot import NONE

Columns: TypeAlias = dict[str, tuple[Any, ...]]


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


def columns_of(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> Columns:
    """The values of each field, by its name; empty columns for no rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return dict(zip(names, columns, strict=True))
