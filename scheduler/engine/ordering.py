"""Who is next."""

from __future__ import annotations

import numpy as np

from scheduler.engine.snapshot import Ints, Waiting, ints


def order_waiting(waiting: Waiting) -> Ints:
    """Rows of waiting jobs, the next one first: higher tier, then longer waiting, then lower id.

    `queued_at_s` is the time of submit and survives retries, so waiting never lowers a place.
    """
    return ints(np.lexsort((waiting.id, waiting.queued_at_s, -waiting.tier)))


def count_ahead(pools: Ints) -> Ints:
    """For jobs in order, how many of the same pool stand before each. `pools` is theirs."""
    ahead = np.zeros(len(pools), dtype=np.int64)
    for pool in np.unique(pools):
        rows = np.flatnonzero(pools == pool)
        ahead[rows] = np.arange(len(rows))
    return ahead
