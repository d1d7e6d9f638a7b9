"""How long a job may wait before it goes first, learnt from what a plain scheduler would have done.

The orders `shortest` and `las` starve whoever is long and wide. What their pools' limits follow is
a shadow that runs the same jobs first come first served (`scheduler/simulator/guard.py`); it takes
seconds, so it is no part of a cycle: cycles read what it said last.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler.engine.policy import Order
from scheduler.models import Pool
from scheduler.selectors.traces import line_of, pools_with_gpus
from scheduler.services.sharing.policies import policy_in_force
from scheduler.simulator.guard import limit_of_past

LOOK_BACK = timedelta(days=14)
MOST_JOBS = 2_000
STARVING = (Order.SHORTEST, Order.LAS)


def learn_wait_limits(*, now: datetime) -> int:
    """Replay the last weeks of the pools whose order can starve; returns how many. Others forget
    what was learnt of them."""
    policy, since = policy_in_force(), now - LOOK_BACK
    guarded = [pool for pool in pools_with_gpus() if policy.of(pool.name).order in STARVING]
    Pool.objects.exclude(pk__in=[pool.pk for pool in guarded]).exclude(may_wait_s=None).update(
        may_wait_s=None
    )
    for pool in guarded:
        line, nodes = line_of(pool, since, now, most_jobs=MOST_JOBS)
        limit_s = limit_of_past(line, nodes, (now - since).total_seconds())
        Pool.objects.filter(pk=pool.pk).update(may_wait_s=limit_s)
    return len(guarded)
