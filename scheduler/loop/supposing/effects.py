"""What a change means for the job itself: its moment, and what it costs."""

from __future__ import annotations

from copy import copy
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from accounts.models import User
from scheduler.conf import load_conf
from scheduler.loop.supposing.in_time import finish_of_waiting
from scheduler.loop.supposing.reshaping import as_if
from scheduler.models import Attempt, Job
from scheduler.money import from_steps
from scheduler.selectors.prices.seen import may_see_cost
from scheduler.selectors.usage import job_cost
from scheduler.services.changing.prices import Pricing, check_price, price_effect, priced
from scheduler.services.changing.reading import Change
from scheduler.services.prices.highest import Dearest, left_steps
from scheduler.services.sharing.keeping.pledging import Worst
from scheduler.services.sharing.prices import most_of
from scheduler.services.submitting.columns import finish_columns
from scheduler.states import LIVE_JOB_STATES, WAITING_JOB_STATES


def finish_then(job: Job, change: Change, now: datetime) -> dict[str, Any] | None:
    """How a waiting job would stand to its moment, by the start that the last cycle foresaw."""
    finish_by, policy = change.finishing.of(job)
    limit_s = change.time_limit_s or job.time_limit_s
    changed = copy(job)
    for name, value in finish_columns(finish_by, policy, limit_s).items():
        setattr(changed, name, value)
    changed.time_limit_s = limit_s
    found = finish_of_waiting(changed, now=now)
    return asdict(found) if found else None


def highest_then(
    viewer: User, job: Job, change: Change, columns: dict[str, Any], now: datetime
) -> str:
    """What its highest price means with these columns and the change; empty without one, and where
    nobody may say. Raises Invalid for one that pays for too little."""
    limit_s = change.time_limit_s or job.time_limit_s
    columns = columns | {"time_limit_s": limit_s}
    if change.nodes is not None:
        columns |= {"nodes": change.nodes}
    then = priced(as_if(job, columns, job.pk), change.pricing)
    if change.pricing != Pricing():
        check_price(viewer, then, now=now)
    elif then.max_cost is None or not may_see_cost(viewer, job):
        return ""
    return price_effect(then, now=now)


def more_cost(viewer: User, job: Job, change: Change, now: datetime) -> str | None:
    """What the added time costs at most, by its highest price: at the rate it costs now, of one
    that waits on the dearest GPUs it may get. None where nobody may say, and for less time of one
    that waits or has no GPU."""
    if change.time_limit_s is None or not may_see_cost(viewer, job):
        return None
    attempt = _live(job)
    if attempt is None:
        return _more_of_waiting(job, change, now)
    cost = job_cost(viewer, job, now=now)

    def whole(one: Job, limit_s: int) -> Decimal:
        """Of the whole attempt."""
        most, by_time = most_of(attempt, one), cost.hourly * limit_s / 3600
        return by_time if most is None else min(by_time, from_steps(most))

    then = whole(priced(job, change.pricing), change.time_limit_s)
    more = max(Decimal(0), then - whole(job, job.time_limit_s))
    return f"{more:.2f} {cost.currency}"


def _more_of_waiting(job: Job, change: Change, now: datetime) -> str | None:
    limit_s = change.time_limit_s or 0
    if job.state not in WAITING_JOB_STATES or not job.gpus or limit_s <= job.time_limit_s:
        return None
    worst = Worst(now)
    longer = as_if(priced(job, change.pricing), {"time_limit_s": limit_s}, job.pk)
    was, then = worst.kept_of(job), worst.kept_of(longer)
    if was is None or then is None:
        return None
    return f"{max(Decimal(0), from_steps(then - was)):.2f} {load_conf().currency}"


def most_nodes_then(job: Job, change: Change, now: datetime) -> int:
    """The most nodes that a job gets with a change that names some: no more than its highest price
    pays for, but those of them that it has."""
    nodes = change.nodes or job.nodes
    then = priced(as_if(job, {"nodes": nodes}, job.pk), change.pricing)
    if then.max_cost is None:
        return nodes
    most = Dearest(now).most_nodes(then, left_steps(then, now))
    attempt = _live(job)
    return max(most, min(nodes, attempt.placements.count())) if attempt else most


def _live(job: Job) -> Attempt | None:
    if job.state not in LIVE_JOB_STATES:
        return None
    return job.attempts.filter(ended_at__isnull=True).order_by("-number").first()
