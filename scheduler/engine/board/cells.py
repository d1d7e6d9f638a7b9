"""What is kept, node by node and as columns, so that one question is asked of all of it at once.

A pool may have a thousand bookings ahead. Each is compared with all others when its nodes are
chosen, so looking at them one by one would cost a second of every decision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, flags, floats, ints

_FIRST_ROWS = 64


class Cells:
    """A row for each node of each thing kept in a pool; `number` says of which, and only grows."""

    def __init__(self) -> None:
        self._size = 0
        self._whole_numbers: Ints = np.zeros((5, _FIRST_ROWS), dtype=np.int64)
        self._moments: Floats = np.zeros((2, _FIRST_ROWS))

    def add(
        self,
        number: int,
        nodes: Ints,
        gpus: Ints,
        span: tuple[float, float],
        *,
        is_whole: bool,
        model: int = NONE,
    ) -> None:
        """`gpus` of the model of each of `nodes` for as long as `span`, or (`is_whole`) all."""
        end = self._size + len(nodes)
        while end > self._moments.shape[1]:
            self._whole_numbers = np.concatenate([self._whole_numbers] * 2, axis=1)
            self._moments = np.concatenate([self._moments] * 2, axis=1)
        rows = slice(self._size, end)
        self._whole_numbers[1, rows], self._whole_numbers[2, rows] = nodes, gpus
        self._whole_numbers[0, rows], self._whole_numbers[3, rows] = number, int(is_whole)
        self._whole_numbers[4, rows] = model
        self._moments[0, rows], self._moments[1, rows] = span
        self._size = end

    def copied(self) -> Cells:
        """The same rows, to be added to and removed by itself."""
        other = Cells()
        other._size = self._size
        other._whole_numbers, other._moments = self._whole_numbers.copy(), self._moments.copy()
        return other

    def remove(self, number: int) -> None:
        """Forget what was added under it."""
        left = np.flatnonzero(self._numbers != number)
        for table in (self._whole_numbers, self._moments):
            table[:, : len(left)] = table[:, left]
        self._size = len(left)

    @property
    def _numbers(self) -> Ints:
        return ints(self._whole_numbers[0, : self._size])

    def _during(self, from_s: float, until_s: float) -> Flags:
        begins, ends = self._moments[:, : self._size]
        return flags((begins < until_s) & (ends > from_s))

    def meeting(self, nodes: Flags, from_s: float, until_s: float) -> Sequence[int]:
        """The numbers of what shares one of these nodes while this lasts, in ascending order."""
        found = nodes[self._whole_numbers[1, : self._size]] & self._during(from_s, until_s)
        numbers: list[int] = np.unique(self._numbers[found]).tolist()
        return numbers

    def taken(
        self, size: int, from_s: float, until_s: float, model: int = NONE
    ) -> tuple[Ints, Flags]:
        """By node (`size` of them): the GPUs that are kept in part, and where all or any is kept.

        Of a `model`, only what is kept of just that counts as kept in part. The second has two
        rows: nodes that are kept as a whole, and nodes of which anything is.
        """
        during = self._during(from_s, until_s)
        _, node, gpus, whole, of_model = self._whole_numbers[:, : self._size][:, during]
        is_part = whole == 0
        counted = is_part if model == NONE else is_part & (of_model == model)
        parts = np.bincount(node[counted], weights=gpus[counted], minlength=size)
        where = np.zeros((2, size), dtype=np.bool_)
        where[0, node[~is_part]] = where[1, node] = True
        return ints(parts), where

    def at(self, node: int, until_s: float) -> Sequence[int]:
        """The numbers of what is kept of a node and begins before this, in ascending order."""
        begins = floats(self._moments[0, : self._size])
        found = (self._whole_numbers[1, : self._size] == node) & (begins < until_s)
        numbers: list[int] = np.unique(self._numbers[found]).tolist()
        return numbers
