"""The pools of a simulated cluster: how many nodes each has, and how many GPUs a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.snapshot import Ints, ints

# What the only pool is called where nobody names it.
ONLY = "pool"
# Nodes, or GPUs of a node, by pool; a number where there is one pool, or all are alike.
ByPool: TypeAlias = int | tuple[int, ...]


def by_pool(figure: ByPool, size: int = 1) -> tuple[int, ...]:
    """Spelt out for so many pools."""
    return (figure,) * size if isinstance(figure, int) else figure


@dataclass(frozen=True, slots=True)
class Pools:
    """Nodes are numbered through, those of the first pool first, and devices in their order."""

    names: tuple[str, ...]
    nodes: tuple[int, ...]
    gpus_per_node: tuple[int, ...]

    @classmethod
    def of(cls, nodes: ByPool, gpus_per_node: ByPool, names: Sequence[str] = ()) -> Pools:
        """Raises ValueError if the figures are of different numbers of pools."""
        counts = by_pool(nodes, max(1, len(names)))
        names = tuple(names) or tuple(_usual_names(len(counts)))
        sizes = by_pool(gpus_per_node, len(counts))
        if not len(names) == len(counts) == len(sizes):
            raise ValueError(f"{len(names)} pools, nodes of {len(counts)} and GPUs of {len(sizes)}")
        return cls(names, counts, sizes)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def gpus(self) -> Ints:
        """By pool: the GPUs of all its nodes."""
        return ints(np.multiply(self.nodes, self.gpus_per_node))

    @property
    def of_node(self) -> Ints:
        """By node: the row of its pool."""
        return ints(np.repeat(np.arange(len(self)), self.nodes))

    @property
    def node_of_device(self) -> Ints:
        """By device: the row of its node."""
        sizes = np.repeat(self.gpus_per_node, self.nodes)
        return ints(np.repeat(np.arange(len(sizes)), sizes))

    def row(self, name: str) -> int:
        """Of the pool of this name; without one, of the only pool. Raises ValueError."""
        if not name and len(self) == 1:
            return 0
        if name not in self.names:
            missing = f"there is no pool {name!r}" if name else "say of which pool"
            raise ValueError(f"{missing}; pools are {', '.join(self.names)}")
        return self.names.index(name)

    def first_node(self, row: int) -> int:
        """The row of the first node of a pool."""
        return sum(self.nodes[:row])


def _usual_names(size: int) -> Sequence[str]:
    return (ONLY,) if size == 1 else [f"{ONLY}-{row + 1}" for row in range(size)]
