"""The whole cluster at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.engine.snapshot.accounts import Accounts, Limits
from scheduler.engine.snapshot.calendar import (
    BookedNodes,
    Bookings,
    Headroom,
    Promises,
    Windows,
    no_booked_nodes,
    no_bookings,
    no_headroom,
    no_promises,
    no_windows,
)
from scheduler.engine.snapshot.claims import Claims, no_claims
from scheduler.engine.snapshot.cluster import Devices, Held, Nodes, Slices, Tokens
from scheduler.engine.snapshot.columns import (
    NONE,
    WHOLE_MILLI,
    Flags,
    Floats,
    Ints,
    floats,
    ints,
)
from scheduler.engine.snapshot.jobs import Demand, Running, Waiting


def _no_tokens() -> Tokens:
    return Tokens(job=ints([]), licence=ints([]), count=ints([]), until_s=floats([]))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The whole cluster at one moment. The tuples give names to pool, queue and model numbers.

    `wait_limit_s`, by pool: who has waited longer goes first. None sets no limit.
    `model_sets` are rows of `models` of which a job takes any one. `demand`: what to keep room
    for; left empty it is what waits.
    `run_share`, by pool: what part of its declared run time a job usually runs; None is all of it.
    `running`: the live jobs that may be stopped; None if nobody may. `claims`: what is kept for
    jobs that others make room for.
    `size_sets`: numbers of nodes a job can use. `node_masks`: by mask and node, whether a job may
    go there, and `mask_names` what it asks for. `licences`: names, `licence_total`: tokens there
    are, `tokens`: those in use, `licence_sets`: (licence, count) pairs of which a job holds all.
    `missing_mib`: by dataset and node what would have to be copied there first.
    `accounts` share the cluster within `limits`, `account_names` names them; empty: nobody is kept
    from anything.
    `promises`: what the last cycle planned for protected heads; empty if nobody remembers.
    `prices`, by model: what a second of a GPU costs at most, infinite where nobody knows; None if
    no budget is in money. `money`: the unit of prices in words, and how many make one of it.
    `own_prices`, by price list and model: those of whom the general ones are not for, and
    `price_list`, by account, the row of them that it pays by; None: all pay the general ones.
    `windows`: when which nodes are in maintenance. `bookings`: what is booked when, `booked_nodes`:
    on which nodes so far. `headroom`: what production can always have.
    `model_milli`, by model: how many thousandths of a card one such device is; None: all are whole.
    """

    now_s: float
    pools: tuple[str, ...]
    queues: tuple[str, ...]
    queue_is_paused: Flags
    models: tuple[str, ...]
    nodes: Nodes
    devices: Devices
    held: Held
    waiting: Waiting
    wait_limit_s: Floats | None = None
    running: Running | None = None
    run_share: Floats | None = None
    model_sets: tuple[tuple[int, ...], ...] = ()
    slices: Slices = field(default_factory=lambda: Slices(*[ints([])] * 3))
    claims: Claims = field(default_factory=no_claims)
    demand: Demand = field(default_factory=lambda: Demand(*[ints([])] * 5))
    size_sets: tuple[tuple[int, ...], ...] = ()
    node_masks: Flags | None = None
    mask_names: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    licence_total: Ints = field(default_factory=lambda: ints([]))
    tokens: Tokens = field(default_factory=_no_tokens)
    licence_sets: tuple[tuple[tuple[int, int], ...], ...] = ()
    missing_mib: Ints | None = None
    accounts: Accounts = field(default_factory=lambda: Accounts.of(parent=ints([])))
    limits: Limits = field(default_factory=lambda: Limits.of(account=ints([])))
    account_names: tuple[str, ...] = ()
    promises: Promises = field(default_factory=no_promises)
    windows: Windows = field(default_factory=no_windows)
    prices: Floats | None = None
    money: tuple[str, float] = ("", 1.0)
    own_prices: Floats | None = None
    price_list: Ints | None = None
    bookings: Bookings = field(default_factory=no_bookings)
    booked_nodes: BookedNodes = field(default_factory=no_booked_nodes)
    headroom: Headroom = field(default_factory=no_headroom)
    model_milli: Ints | None = None

    def weights(self) -> Ints:
        """By row of a `model` column, the last for any, what a device is of a card in milli-GPU;
        where several models will do the most of them."""
        milli = self.model_milli
        if milli is None:
            return ints(np.full(len(self.models) + len(self.model_sets) + 1, WHOLE_MILLI))
        return ints((self.accepts() * milli).max(axis=1, initial=1))

    def accepts(self) -> Flags:
        """By row of a `model` column, the last for any, whether it takes each model."""
        models = len(self.models)
        table = np.zeros((models + len(self.model_sets) + 1, models), dtype=np.bool_)
        table[:models] = np.eye(models)
        for row, members in enumerate(self.model_sets):
            table[models + row, list(members)] = True
        table[NONE] = True
        return table

    def only(self, rows: Ints) -> Snapshot:
        """The same cluster with only these rows of waiting jobs, in order, each once."""
        if len(rows) == len(self.waiting):
            return self
        return replace(self, waiting=self.waiting.take(rows))
