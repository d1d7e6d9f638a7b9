"""The dials of a cycle, as one frozen value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache


class Order(StrEnum):
    """Who is next among jobs of one tier.

    `fair`: whose accounts have the least share of the cluster, past use included. `fifo`: the
    oldest. `shortest`: the least run time ahead. `las`: the least attained service.
    """

    FAIR = "fair"
    FIFO = "fifo"
    SHORTEST = "shortest"
    LAS = "las"


class PlacementRule(StrEnum):
    """How a job's nodes and shared devices are chosen among those that hold it.

    `tight`: whole nodes stay whole, then the tightest fit. `pack`: what stays free is worth most
    to the usual requests. `fgd`: least fragmentation as published, to compare.
    """

    TIGHT = "tight"
    PACK = "pack"
    FGD = "fgd"


# As pages say it.
ORDER_WORDS: Mapping[Order, str] = {
    Order.FAIR: "smallest share first",
    Order.FIFO: "oldest first",
    Order.SHORTEST: "shortest first",
    Order.LAS: "least run first",
}
PLACEMENT_WORDS: Mapping[PlacementRule, str] = {
    PlacementRule.TIGHT: "tightest fit",
    PlacementRule.PACK: "room for usual jobs",
    PlacementRule.FGD: "least fragmentation",
}


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """The dials that a pool, by name, has of its own; all others are the cluster's."""

    pool: str
    order: Order
    head_patience_s: float
    placement: PlacementRule
    preempts: bool


@dataclass(frozen=True, slots=True)
class Policy:
    """`order`: who is next within a tier. `head_patience_s`: how long a job that does not fit lets
    others pass it before its pool keeps nodes for it. `backfill_slack_s`: how much earlier than the
    protected head's start a passing job must be gone; covers the time of starting and stopping.
    `heads`: for how many jobs of a pool room is kept at most. `placement`: which of the nodes that
    hold a job it takes.
    `preempts`: live jobs may be stopped for others. With the orders `shortest` and `las` who runs
    is chosen anew in every cycle, and nobody is kept room for; with the others a job may stop those
    of lower tiers, and only if it cannot start otherwise. `min_run_s`: how long every job may run
    after each start before it is stopped for another. `rest_s`: for how long a job that was stopped
    is not stopped again.
    `resizes`: live elastic jobs may be restarted with other numbers of nodes: with fewer before
    anybody is stopped, with more where nobody waits and it pays.
    `half_life_s`: how long it takes until past use counts half, under the order `fair`.
    `pools`: the pools that have dials of their own. `rearranges` and `stops_lower_tiers` say what
    holds in all other pools; ask `of` for a pool and `every` for whether it holds anywhere.
    """

    order: Order = Order.FIFO
    head_patience_s: float = 600.0
    backfill_slack_s: float = 60.0
    placement: PlacementRule = PlacementRule.TIGHT
    preempts: bool = False
    min_run_s: float = 0.0
    rest_s: float = 0.0
    resizes: bool = False
    half_life_s: float = 7 * 86_400.0
    heads: int = 1
    pools: tuple[PoolPolicy, ...] = ()

    def __post_init__(self) -> None:
        if not self.head_patience_s >= 0:
            raise ValueError("head_patience_s must be zero or more seconds")
        if not self.backfill_slack_s >= 0:
            raise ValueError("backfill_slack_s must be zero or more seconds")
        if not self.heads >= 1:
            raise ValueError("heads must be one or more")
        if not self.min_run_s >= 0:
            raise ValueError("min_run_s must be zero or more seconds")
        if not self.rest_s >= 0:
            raise ValueError("rest_s must be zero or more seconds")
        if not 0 < self.half_life_s < math.inf:
            raise ValueError("half_life_s must be a number of seconds above zero")
        if len({one.pool for one in self.pools}) < len(self.pools):
            raise ValueError("pools must name each pool once")
        for one in self.pools:
            self._of(one)

    def of(self, pool: str) -> Policy:
        """As it is for this pool."""
        own = next((one for one in self.pools if one.pool == pool), None)
        return self if own is None else self._of(own)

    def by_pool(self, pools: Sequence[str]) -> tuple[Policy, ...]:
        """As it is for each of these pools."""
        if not self.pools:
            return (self,) * len(pools)
        return _by_pool(self, tuple(pools))

    def every(self) -> tuple[Policy, ...]:
        """As it is for pools without dials of their own, then for each that has them."""
        return (self, *(self._of(one) for one in self.pools))

    def _of(self, own: PoolPolicy) -> Policy:
        dials = {one.name: getattr(own, one.name) for one in fields(own) if one.name != "pool"}
        return replace(self, pools=(), **dials)

    @property
    def memory_s(self) -> float | None:
        """The half-life, if past use counts in any pool."""
        return self.half_life_s if any(one.order is Order.FAIR for one in self.every()) else None

    @property
    def rearranges(self) -> bool:
        """Whether all who run are chosen anew: the order says who gains by running now."""
        return self.preempts and self.order in (Order.SHORTEST, Order.LAS)

    @property
    def moves(self) -> bool:
        """Whether some pool chooses anew who runs, so that who runs may go on elsewhere."""
        return any(one.rearranges for one in self.every())

    @property
    def stops_lower_tiers(self) -> bool:
        """Whether a job may stop those of lower tiers, and nobody else: age says not who gains."""
        return self.preempts and not self.rearranges


@lru_cache(maxsize=16)
def _by_pool(policy: Policy, pools: tuple[str, ...]) -> tuple[Policy, ...]:
    """As `of` of each; a decision asks ten times, and a preview decides dozens of times."""
    own = {one.pool: policy._of(one) for one in policy.pools}
    return tuple(own.get(pool, policy) for pool in pools)


DEFAULT_POLICY = Policy()
