"""What there is to run on, and what is held of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.engine.snapshot.columns import NONE, WHOLE_MILLI, Flags, Floats, Ints, Table, ints
from scheduler.states import NodeState

NODE_STATES: tuple[NodeState, ...] = tuple(NodeState)


@dataclass(frozen=True, slots=True, eq=False)
class Nodes(Table):
    """Every node that is not retired. `state` is a row of `NODE_STATES`."""

    id: Ints
    pool: Ints
    state: Ints
    takes_work: Flags
    cpus_total: Ints
    cpus_free: Ints
    memory_total_mib: Ints
    memory_free_mib: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Devices(Table):
    """Every device that is present, sorted by node row, then index.

    `holder` is the row of the placement that holds it whole, -1 for none. `link_group` numbers
    groups of devices of one node that reach each other fast; each belongs to one node. Only a
    shareable device may be held in part, by several; see `Slices`. `claim` is the row of the claim
    that keeps the device for a job, whoever holds it now; -1 for none.
    """

    USUAL: ClassVar[Mapping[str, int | float | bool]] = {"claim": NONE}

    id: Ints
    node: Ints
    model: Ints
    link_group: Ints
    is_healthy: Flags
    holder: Ints
    is_shareable: Flags
    claim: Ints

    def free_milli(self, slices: Slices) -> Ints:
        """What nobody holds of each device, in milli-GPU."""
        held = np.bincount(slices.device, weights=slices.milli, minlength=len(self.id))
        return ints(np.where(self.holder == NONE, WHOLE_MILLI - held, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Slices(Table):
    """Parts of shareable devices: a placement (row) holds so much of a device (row)."""

    holder: Ints
    device: Ints
    milli: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Held(Table):
    """Every placement that holds devices now. `until_s`: when its job reaches the time limit."""

    job: Ints
    node: Ints
    cpus: Ints
    memory_mib: Ints
    until_s: Floats
