"""What there is to run on, and what is held of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.engine.snapshot.columns import NONE, WHOLE_MILLI, Flags, Floats, Ints, Table, ints
from scheduler.states import NodeState

NODE_STATES: tuple[NodeState, ...] = tuple(NodeState)
# How well parts of one card are kept apart, the weakest first: taking turns, limits in the driver,
# separate hardware (MIG, or a card of its own).
ISOLATIONS = ("time-sliced", "mps", "mig")


@dataclass(frozen=True, slots=True, eq=False)
class Nodes(Table):
    """Every node that is not retired. `state` is a row of `NODE_STATES`.

    `rack` and `block` number racks and blocks over all pools, -1 where nobody said. `failures`:
    how often jobs failed there lately for the platform's reasons.
    """

    USUAL: ClassVar[Mapping[str, int | float | bool]] = {
        "scratch_total_mib": 0,
        "scratch_free_mib": 0,
        "rack": NONE,
        "block": NONE,
        "failures": 0,
    }

    id: Ints
    pool: Ints
    state: Ints
    takes_work: Flags
    cpus_total: Ints
    cpus_free: Ints
    memory_total_mib: Ints
    memory_free_mib: Ints
    scratch_total_mib: Ints
    scratch_free_mib: Ints
    rack: Ints
    block: Ints
    failures: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Devices(Table):
    """Every device that is present, sorted by node row, then index.

    `holder` is the row of the placement that holds it whole, -1 for none. `link_group` numbers
    groups of devices of one node that reach each other fast, `wide_group` groups of these; each
    belongs to one node, and -1 says nothing of wider ones. Only a
    shareable device may be held in part, by several; see `Slices`. `claim` is the row of the claim
    that keeps the device for a job, whoever holds it now; -1 for none.

    `memory_mib` is its own. `isolation`: how well it is kept apart from what else is on its card,
    a row of `ISOLATIONS`. Devices that are slots of one card have the same `card` number; -1 is a
    card of its own.
    """

    USUAL: ClassVar[Mapping[str, int | float | bool]] = {
        "memory_mib": 0,
        "isolation": 0,
        "card": NONE,
        "claim": NONE,
        "wide_group": NONE,
    }

    id: Ints
    node: Ints
    model: Ints
    link_group: Ints
    is_healthy: Flags
    holder: Ints
    is_shareable: Flags
    claim: Ints
    memory_mib: Ints
    isolation: Ints
    card: Ints
    wide_group: Ints

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
    """Every placement that holds something now. `until_s`: when its job reaches the time limit.

    `tenant`, `account` and `sharer` as in `Waiting`; `shares_cards`: it opted in to other tenants
    on its card; `is_exclusive`: nobody else may come to its node. `booking` and `uses_headroom` as
    in `Waiting`.
    """

    USUAL: ClassVar[Mapping[str, int | float | bool]] = {
        "scratch_mib": 0,
        "tenant": NONE,
        "shares_cards": False,
        "is_exclusive": False,
        "account": NONE,
        "sharer": NONE,
        "booking": NONE,
        "uses_headroom": False,
    }

    job: Ints
    node: Ints
    cpus: Ints
    memory_mib: Ints
    until_s: Floats
    scratch_mib: Ints
    tenant: Ints
    shares_cards: Flags
    is_exclusive: Flags
    account: Ints
    sharer: Ints
    booking: Ints
    uses_headroom: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Tokens(Table):
    """Licences in use: a job holds `count` tokens of a licence (row) until its time limit."""

    job: Ints
    licence: Ints
    count: Ints
    until_s: Floats
