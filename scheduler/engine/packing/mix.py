"""What is usually asked for, as columns: the requests to keep room for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.engine.grouping import group_rows
from scheduler.engine.snapshot import (
    WHOLE_MILLI,
    Demand,
    Flags,
    Floats,
    Ints,
    Snapshot,
    Waiting,
    ints,
)

# As published (Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 4): the most
# popular requests that together make up so much of the demand.
TYPICAL_SHARE = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Typical requests, one row each: per node `gpus` devices of `gpu_milli` each, and `cpus`.

    `accepts[row, model]` says which device models it takes; `count` is its popularity.
    """

    gpus: Ints
    gpu_milli: Ints
    cpus: Ints
    accepts: Flags
    count: Ints

    @property
    def size_milli(self) -> Ints:
        """Milli-GPU of one share of a request."""
        return self.gpus * self.gpu_milli

    @property
    def weight(self) -> Floats:
        """By request its part of all milli-GPU asked for; sums to one if GPUs are asked for."""
        asked = (self.count * self.size_milli).astype(np.float64)
        return asked / max(1.0, float(asked.sum()))

    def shapes(self) -> tuple[Ints, Ints]:
        """Requests whose devices must hold the same are one shape.

        Returns the first row of each shape and, per row, its shape.
        """
        names: dict[tuple[int, bytes], int] = {}
        each = zip(self.gpu_milli.tolist(), self.accepts, strict=True)
        shape = ints([names.setdefault((milli, row.tobytes()), len(names)) for milli, row in each])
        return ints(np.unique(shape, return_index=True)[1]), shape

    def only(self, rows: Flags) -> Mix:
        """These requests."""
        return Mix(
            self.gpus[rows],
            self.gpu_milli[rows],
            self.cpus[rows],
            self.accepts[rows],
            self.count[rows],
        )


def typical_mix(snapshot: Snapshot) -> Mix:
    """The most popular requests of `snapshot.demand`, or of what waits if nothing is known."""
    demand = snapshot.demand if len(snapshot.demand.count) else _asked_by(snapshot.waiting)
    milli = np.where(demand.gpus > 0, demand.gpu_milli, 0)
    columns = [demand.cpus, milli, demand.gpus, demand.model]
    first, group = group_rows(columns)
    count = np.bincount(group, weights=demand.count, minlength=len(first)).astype(np.int64)
    order = np.lexsort((*(column[first] for column in reversed(columns)), count))[::-1]
    before = np.cumsum(count[order]) - count[order]
    rows = order[before < TYPICAL_SHARE * count.sum()]
    kept = first[rows]
    return Mix(
        gpus=demand.gpus[kept],
        gpu_milli=milli[kept],
        cpus=demand.cpus[kept],
        accepts=snapshot.accepts()[demand.model[kept]],
        count=count[rows],
    )


def _asked_by(waiting: Waiting) -> Demand:
    return Demand(
        gpus=waiting.gpus_per_node,
        gpu_milli=np.where(waiting.gpus_per_node > 0, waiting.gpu_milli, WHOLE_MILLI),
        cpus=waiting.cpus,
        model=waiting.model,
        count=waiting.nodes,
    )
