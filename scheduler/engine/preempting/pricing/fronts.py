"""Which nodes a job could take as others come and go: to let those stay who need not go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.engine.snapshot import Flags, Ints, Request, flags, ints


class Front:
    """Which nodes hold one share of a shape once some jobs are gone, as these come and go.

    `node`: of each of their shares. `resources`: free by node, given back by share, and needed.
    """

    def __init__(
        self, node: Ints, is_open: Flags, resources: Sequence[tuple[Ints, Ints, int]]
    ) -> None:
        self._node = node
        self._is_open = is_open
        size = len(is_open)
        self._freed = [freed for _, freed, _ in resources]
        self._slack = [
            free - need + np.bincount(node, weights=freed, minlength=size)
            for free, freed, need in resources
        ]

    @property
    def room(self) -> Flags:
        """The nodes that hold a share now."""
        return flags(self._is_open & (np.minimum.reduce(self._slack) >= 0))

    def give_back(self, rows: Ints) -> None:
        """Let these rows of shares stay after all."""
        for slack, freed in zip(self._slack, self._freed, strict=True):
            np.subtract.at(slack, self._node[rows], freed[rows])

    def take(self, rows: Ints) -> None:
        """Let these rows of shares go."""
        for slack, freed in zip(self._slack, self._freed, strict=True):
            np.add.at(slack, self._node[rows], freed[rows])

    def tightest(self, taken: Ints) -> Ints:
        """The nodes with room, those with the fewest GPUs left over first."""
        room = self.room
        room[taken] = False
        nodes = np.flatnonzero(room)
        return ints(nodes[np.lexsort((nodes, self._slack[0][nodes]))])


def are_enough(fronts: Sequence[Front], request: Request) -> bool:
    """Whether the nodes with room hold all shares; what holds a whole one holds the part too."""
    counts = [int(np.count_nonzero(front.room)) for front in fronts]
    return counts[0] >= request.nodes and counts[-1] >= request.nodes + len(fronts) - 1
