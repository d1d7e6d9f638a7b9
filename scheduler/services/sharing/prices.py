"""What a GPU-second may cost at most, as far as it is known now, and what is left of a highest
price: what worst cases are priced by."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Sum

from accounts.selectors.rates import RateTable, rates_over
from scheduler.conf import load_conf
from scheduler.models import Attempt, Device, Job, UsageEntry
from scheduler.money import steps_of_cost, steps_per_s
from scheduler.selectors.machines.shapes import serving

# Prices that begin later are not looked at: few jobs run longer.
AHEAD = timedelta(days=31)


def dearest_steps(
    asked: Iterable[tuple[int, str]], *, now: datetime
) -> dict[tuple[int, str], int | None]:
    """By team (its id) and model: steps of money per GPU-second; None without a price in the
    currency of the books.

    One query, and one more where a team has a card of its own. The highest price that is known to
    hold within a month counts, so that one who starts before it rises has committed enough.
    """
    pairs = set(asked)
    table = rates_over({model for _, model in pairs})
    return {(team, model): _steps(table, model, now, team) for team, model in pairs}


def dearest_of(
    team: int, pool: int, models: Iterable[str], milli: int, *, now: datetime
) -> int | None:
    """The same of the dearest GPU, or part of one, that a job of the team may get in a pool (its
    id); None if there is none, or one of them has no price.

    `models`: what the job names, each of which will do; an empty one for any.
    """
    present = Device.objects.filter(node__pool=pool, is_present=True, in_service=True)
    found = {
        model
        for name in models
        for model in serving(present, name, milli)
        .order_by()
        .values_list("model", flat=True)
        .distinct()
    }
    prices = list(dearest_steps([(team, model) for model in found], now=now).values())
    known = [one for one in prices if one is not None]
    return max(known) if known and len(known) == len(prices) else None


def dearest_by_card(
    models: Iterable[str], *, now: datetime
) -> dict[int | None, dict[str, int | None]]:
    """By team that has a card of its own (its id), and under None for those who go by the list: by
    model the same. Teams below go by the next card on their way up."""
    asked = set(models)
    table = rates_over(asked)
    return {
        team: {model: _steps(table, model, now, team) for model in asked}
        for team in (None, *sorted(table.teams))
    }


def spent_of(jobs: Collection[int], *, but: Collection[int] = ()) -> dict[int, int]:
    """By job (id) what the books have of its attempts, those of `but` (ids) aside, in steps; one
    query for any. Of who waits that is all that it has cost."""
    if not jobs:
        return {}
    entries = UsageEntry.objects.filter(job__in=jobs).exclude(attempt__in=but)
    sums = entries.order_by().values_list("job").annotate(Sum("cost"))
    return {job: max(0, steps_of_cost(Decimal(cost))) for job, cost in sums}


def most_of(attempt: Attempt, job: Job) -> int | None:
    """What an attempt of the job may cost at most, in steps: what those before it have left of its
    highest price; None without one. One query for one that was tried before."""
    if job.max_cost_steps is None or attempt.number == 1:
        return job.max_cost_steps
    spent = spent_of([job.pk], but=[attempt.pk])
    return max(0, job.max_cost_steps - spent.get(job.pk, 0))


def _steps(table: RateTable, model: str, now: datetime, team: int | None) -> int | None:
    rate = table.dearest(model, now, now + AHEAD, team)
    if rate is None or rate.currency != load_conf().currency:
        return None
    return steps_per_s(rate.price_per_gpu_hour)
