"""The tree of accounts, and what each holds of the cluster now."""

from __future__ import annotations

import numpy as np

from scheduler.engine.snapshot import NONE, Held, Ints, Snapshot, Waiting, ints


class Tree:
    """Ways up from each account (row)."""

    def __init__(self, parent: Ints) -> None:
        self.parent: list[int] = parent.tolist()
        self._ways: dict[int, tuple[int, ...]] = {NONE: ()}
        self._children: dict[int, list[int]] = {}
        for row, up in enumerate(self.parent):
            self._children.setdefault(up, []).append(row)

    def way_up(self, row: int) -> tuple[int, ...]:
        """The account, its parent, and so on up to the root; empty for no account."""
        way = self._ways.get(row)
        if way is None:
            way = (row, *self.way_up(self.parent[row]))
            self._ways[row] = way
        return way

    def children(self, row: int) -> list[int]:
        """The accounts right below this one."""
        return self._children.get(row, [])

    def roll_up(self, table: Ints) -> Ints:
        """By account, the sum over it and all below it; `table` has a row for each account."""
        total = table.copy()
        for row in range(len(self.parent) - 1, -1, -1):
            if self.parent[row] != NONE:
                total[self.parent[row]] += total[row]
        return total


def sharers_of(jobs: Waiting | Held) -> Ints:
    """By row, whose share it takes."""
    return ints(np.where(jobs.sharer == NONE, jobs.account, jobs.sharer))


def held_milli(snapshot: Snapshot) -> tuple[Ints, Ints, Ints]:
    """What is held of devices: rows of `Held`, rows of `Devices`, milli-GPU.

    A device that is a part of a card counts as what it is of it.
    """
    whole = ints(np.flatnonzero(snapshot.devices.holder != NONE))
    slices = snapshot.slices
    return (
        np.concatenate([snapshot.devices.holder[whole], slices.holder]),
        np.concatenate([whole, slices.device]),
        np.concatenate([snapshot.weights()[snapshot.devices.model[whole]], slices.milli]),
    )
