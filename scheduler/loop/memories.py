"""What a snapshot gets beside the rows of this moment: what was learnt from those before."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from scheduler.engine.policy import Order, PlacementRule, Policy
from scheduler.engine.snapshot import Snapshot, flags
from scheduler.loop.demand import DemandMemory
from scheduler.loop.learning import LearntMemory
from scheduler.loop.run_shares import RunShareMemory

_LEARNS = (Order.SHORTEST, Order.LAS)


@dataclass(slots=True)
class Memories:
    """Each counts again when its figures are too old; a new one counts at once."""

    demand: DemandMemory = field(default_factory=DemandMemory)
    learnt: LearntMemory = field(default_factory=LearntMemory)
    run_shares: RunShareMemory = field(default_factory=RunShareMemory)

    def add_to(self, snapshot: Snapshot, policy: Policy, *, now: datetime) -> Snapshot:
        """The snapshot with all that this policy uses."""
        snapshot = self.run_shares.add_to(snapshot, now=now)
        orders = [one.order for one in policy.by_pool(snapshot.pools)]
        learns = [order in _LEARNS for order in orders]
        if any(learns):
            by_chance = flags([order is Order.LAS for order in orders])
            snapshot = self.learnt.add_to(snapshot, flags(learns), by_chance, now=now)
        if all(one.placement is PlacementRule.TIGHT for one in policy.every()):
            return snapshot
        return self.demand.add_to(snapshot, now=now)
