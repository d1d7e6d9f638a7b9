"""Who is next."""

from __future__ import annotations

import numpy as np

from scheduler.engine.policy import Order
from scheduler.engine.snapshot import Ints, Snapshot, ints
from scheduler.engine.worth import length_of


def order_waiting(snapshot: Snapshot, order: Order = Order.FIFO) -> Ints:
    """Rows of waiting jobs, the next one first: higher tier, then the policy, then age, then id.

    Within a tier those that have waited longer than their pool's `wait_limit_s` come first, oldest
    first; then the others by `order`. `queued_at_s` is the time of submit and survives retries, so
    that waiting, failing and being held never lower a place among equal inputs.
    """
    waiting = snapshot.waiting
    length = length_of(waiting, order)
    if snapshot.wait_limit_s is not None:
        waited_s = snapshot.now_s - waiting.queued_at_s
        length[waited_s > snapshot.wait_limit_s[waiting.pool]] = -1.0
    return ints(np.lexsort((waiting.id, waiting.queued_at_s, length, -waiting.tier)))


def count_ahead(pools: Ints) -> Ints:
    """For jobs in order, how many of the same pool stand before each. `pools` is theirs."""
    ahead = np.zeros(len(pools), dtype=np.int64)
    for pool in np.flatnonzero(np.bincount(pools)):
        rows = np.flatnonzero(pools == pool)
        ahead[rows] = np.arange(len(rows))
    return ahead
