"""On how many nodes an elastic job may be, by what is left of its highest price."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from django.db.models import Count

from scheduler.models import Job, Placement
from scheduler.money import steps_of_cost
from scheduler.selectors.usage import costs_until
from scheduler.services.prices.highest import Dearest
from scheduler.services.sharing.prices import spent_of
from scheduler.states import LIVE_JOB_STATES


def load_paid_nodes(priced: Collection[int], also: Sequence[Job], now: datetime) -> dict[int, int]:
    """By job (of these ids, the elastic ones with a highest price) the most nodes that it may start
    with or grow to, where that is fewer than it asks for; those of `also` are no rows.

    One that runs keeps those that it has. No query where there are none, a few for all of them.
    """
    if not priced:
        return {}
    rows = Job.objects.filter(pk__in=priced).select_related("project", "pool", "owner")
    jobs = [*rows, *(job for job in also if job.pk in priced)]
    live = [job for job in jobs if job.state in LIVE_JOB_STATES]
    waiting = [job for job in jobs if job.state not in LIVE_JOB_STATES]
    spent = spent_of([one.pk for one in waiting if one.end_reason])
    if live:
        costs = costs_until(live, now=now)
        spent |= {number: steps_of_cost(one.cost) for number, one in costs.items()}
    held, dearest, found = _held_by([one.pk for one in live]), Dearest(now), dict[int, int]()
    for job in jobs:
        most = dearest.most_nodes(job, (job.max_cost_steps or 0) - spent.get(job.pk, 0))
        most = max(most, held.get(job.pk, 0))
        if most < job.nodes:
            found[job.pk] = most
    return found


def _held_by(jobs: Collection[int]) -> dict[int, int]:
    """By job how many nodes its live attempt has."""
    if not jobs:
        return {}
    held = Placement.objects.filter(attempt__job__in=jobs, attempt__ended_at__isnull=True)
    return dict(held.order_by().values_list("attempt__job").annotate(Count("pk")))
