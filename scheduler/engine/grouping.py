"""Rows that are equal in every column, as one group."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

_Ints: TypeAlias = npt.NDArray[np.int64]
# A table of so many places for each row is quicker than a sort.
_MOST_EMPTY = 8


def group_rows(columns: list[_Ints]) -> tuple[_Ints, _Ints]:
    """Rows that are equal in every column form one group.

    Returns the first row of each group and, per row, its group. Equals `np.unique` over rows, but
    packs the columns into one number, which sorts ten times faster.
    """
    size = len(columns[0])
    if not size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    key = np.zeros(size, dtype=np.int64)
    width = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        span = high - low + 1
        if span == 1:
            continue
        if width * span >= 2**62:
            _, key = np.unique(key, return_inverse=True)
            width = int(key.max()) + 1
            if width * span >= 2**62:
                _, column = np.unique(column, return_inverse=True)
                low, span = 0, int(column.max()) + 1
        key = key * span + (column - low)
        width *= span
    if width <= _MOST_EMPTY * size:
        return _looked_up(key, width)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return first.astype(np.int64), group.astype(np.int64).reshape(-1)


def _looked_up(key: _Ints, width: int) -> tuple[_Ints, _Ints]:
    """Equals the sort of `np.unique`, in a table with a place for each number below `width`."""
    size = len(key)
    row_of = np.full(width, size, dtype=np.int64)
    # The last one that is written stays: the first row of each.
    row_of[key[::-1]] = np.arange(size - 1, -1, -1)
    is_there = row_of < size
    number = np.cumsum(is_there) - 1
    return row_of[is_there], number[key]
