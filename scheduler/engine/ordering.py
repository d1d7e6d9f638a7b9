"""Who is next."""

from __future__ import annotations

import numpy as np

from scheduler.engine.policy import DEFAULT_POLICY, Order, Policy
from scheduler.engine.snapshot import Flags, Ints, Snapshot, flags, ints
from scheduler.engine.worth import lengths_of

_ORDERS = tuple(Order)
# Before all orders: who has waited too long, by age alone.
_OVERDUE = -1


def order_waiting(snapshot: Snapshot, policy: Policy = DEFAULT_POLICY) -> Ints:
    """Rows of waiting jobs, the next one first: higher tier, then the policy, then age, then id.

    Within a tier those that have waited longer than their pool's `wait_limit_s` come first, oldest
    first; then the others by the order of their pool. Pools of different orders have nothing to
    compare jobs by and share no nodes; within a tier they come one order after the other, which
    matters only for what their accounts may hold. `queued_at_s` is the time of submit and survives
    retries, so that waiting, failing and being held never lower a place among equal inputs.
    """
    waiting, kind = snapshot.waiting, kinds_of(snapshot, policy)
    length = np.where(kind == _OVERDUE, 0.0, lengths_of(waiting, orders_of(snapshot, policy)))
    return ints(np.lexsort((waiting.id, waiting.queued_at_s, length, kind, -waiting.tier)))


def orders_of(snapshot: Snapshot, policy: Policy) -> list[Order]:
    """By pool (row), who is next there."""
    return [one.order for one in policy.by_pool(snapshot.pools)]


def kinds_of(snapshot: Snapshot, policy: Policy) -> Ints:
    """By waiting row, which jobs of a tier are compared with each other, the first ones lowest:
    who has waited too long, then a number for each order."""
    number = ints([kind_number(order) for order in orders_of(snapshot, policy)])
    kind = ints(number[snapshot.waiting.pool])
    kind[is_overdue(snapshot)] = _OVERDUE
    return kind


def kind_number(order: Order) -> int:
    """What `kinds_of` gives to jobs that an order compares."""
    return _ORDERS.index(order)


def is_overdue(snapshot: Snapshot) -> Flags:
    """By waiting row, whether it has waited longer than its pool lets anybody."""
    waiting = snapshot.waiting
    if snapshot.wait_limit_s is None:
        return flags(np.zeros(len(waiting)))
    return flags(snapshot.now_s - waiting.queued_at_s > snapshot.wait_limit_s[waiting.pool])


def count_ahead(pools: Ints) -> Ints:
    """For jobs in order, how many of the same pool stand before each. `pools` is theirs."""
    ahead = np.zeros(len(pools), dtype=np.int64)
    for pool in np.flatnonzero(np.bincount(pools)):
        rows = np.flatnonzero(pools == pool)
        ahead[rows] = np.arange(len(rows))
    return ahead
