"""Who is next."""

from __future__ import annotations

import numpy as np

from scheduler.engine.policy import Order
from scheduler.engine.snapshot import Floats, Ints, Snapshot, Waiting, floats, ints


def order_waiting(snapshot: Snapshot, order: Order = Order.FIFO) -> Ints:
    """Rows of waiting jobs, the next one first: higher tier, then the policy, then age, then id.

    Within a tier those that have waited longer than their pool's `wait_limit_s` come first, oldest
    first; then the others by `order`. `queued_at_s` is the time of submit and survives retries, so
    that waiting, failing and being held never lower a place among equal inputs.
    """
    waiting = snapshot.waiting
    length = _length(waiting, order)
    if snapshot.wait_limit_s is not None:
        waited_s = snapshot.now_s - waiting.queued_at_s
        length[waited_s > snapshot.wait_limit_s[waiting.pool]] = -1.0
    return ints(np.lexsort((waiting.id, waiting.queued_at_s, length, -waiting.tier)))


def _length(waiting: Waiting, order: Order) -> Floats:
    """What `order` sorts by, the least first; never below zero.

    Shortest: run time x root of GPUs, between shortest run time and least GPU time. A wide job
    blocks more than it uses, yet pure GPU time lets it wait for ever.
    """
    if order is Order.FIFO:
        return floats(np.zeros(len(waiting)))
    gpus = waiting.nodes * waiting.gpus_per_node + waiting.part_gpus
    return floats(waiting.remaining_s * np.sqrt(gpus))


def count_ahead(pools: Ints) -> Ints:
    """For jobs in order, how many of the same pool stand before each. `pools` is theirs."""
    ahead = np.zeros(len(pools), dtype=np.int64)
    for pool in np.unique(pools):
        rows = np.flatnonzero(pools == pool)
        ahead[rows] = np.arange(len(rows))
    return ahead
