"""For how long the highest price of a job lets a new attempt run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from accounts.selectors.rates import rates_over
from scheduler.models import Attempt, Device, Job
from scheduler.services.prices.highest import (
    ENDING_S,
    least_s,
    seconds_left,
    short_facts,
)
from scheduler.services.rows.updating import update_rows
from scheduler.services.sharing.guard import LimitReached
from scheduler.services.sharing.prices import spent_of
from scheduler.states import WaitReason


def limit_by_price(
    attempts: Sequence[Attempt],
    jobs: Mapping[int, Job],
    devices: Mapping[int, Sequence[int]],
    *,
    now: datetime,
) -> None:
    """Write for how long what is left of each job's highest price pays for its devices (ids, by
    job); its grace is taken off. No query where no job has one; prices, models and what earlier
    attempts have cost are read once for all.

    Raises LimitReached where it does not pay for the job's least time: nothing of the start may
    stay.
    """
    bound = [one for one in attempts if jobs[one.job_id].max_cost_steps is not None]
    if not bound:
        return
    models = _models_of([pk for one in bound for pk in devices[one.job_id]])
    table = rates_over(set(models.values()))
    # A first one has nothing before it to be looked up.
    tried = [one.job_id for one in bound if one.number > 1]
    spent = spent_of(tried, but=[one.pk for one in bound])
    for attempt in bound:
        job = jobs[attempt.job_id]
        left = max(0, (job.max_cost_steps or 0) - spent.get(job.pk, 0))
        held = [models[pk] for pk in devices[job.pk]]
        seconds = seconds_left(left, held, job.project.team_id, now, table)
        limit_s = seconds - attempt.stop_grace_s - ENDING_S
        if limit_s < least_s(job):
            words = f"job {job.pk}: its highest price pays for {max(0, limit_s)} s"
            raise LimitReached(words, WaitReason.MAX_COST_SHORT, short_facts(job))
        attempt.cost_limit_s = limit_s
    update_rows(Attempt, ("cost_limit_s",), [(one.pk, (one.cost_limit_s,)) for one in bound])


def _models_of(devices: Sequence[int]) -> dict[int, str]:
    return dict(Device.objects.filter(pk__in=devices).order_by().values_list("pk", "model"))
