"""What a new budget begins with: what its period has used already, and what runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from scheduler.models import Attempt, Budget, BudgetHold, BudgetTrueUp, UsageEntry
from scheduler.services.sharing.committing import used_by
from scheduler.services.sharing.prices import dearest_steps, spent_of
from scheduler.services.sharing.tree import below
from scheduler.states import LIVE_ATTEMPT_STATES


def begin_budget(budget: Budget, *, now: datetime) -> None:
    """What was used in its period so far is spent; what runs now is held at its worst.

    What it begins with is on record beside its true-ups, the next of which asks the ledger.
    """
    ended = UsageEntry.objects.filter(
        below(budget.account, "project"),
        period_start__gte=budget.valid_from,
        period_start__lt=budget.valid_until,
    ).exclude(attempt__state__in=LIVE_ATTEMPT_STATES)
    spent_s, spent_money = used_by(ended)
    holds = _holds_of_running(budget, now) if budget.valid_from <= now < budget.valid_until else []
    BudgetHold.objects.bulk_create(holds)
    Budget.objects.filter(pk=budget.pk).update(
        spent_s=spent_s,
        spent_money=spent_money if budget.is_money else 0,
        committed_s=sum(hold.gpu_seconds for hold in holds),
        committed_money=sum(hold.money for hold in holds),
    )
    opening = spent_money if budget.is_money else spent_s
    if opening:
        BudgetTrueUp.objects.create(
            budget=budget,
            is_opening=True,
            at=now,
            until_s=int(now.timestamp()),
            difference=opening,
        )
    budget.refresh_from_db()


def _holds_of_running(budget: Budget, now: datetime) -> list[BudgetHold]:
    attempts = Attempt.objects.filter(
        below(budget.account, "job__project"), state__in=LIVE_ATTEMPT_STATES
    )
    rows: list[tuple[Any, ...]] = list(
        attempts.filter(placements__allocations__isnull=False).values_list(
            "pk",
            "job",
            "job__max_cost_steps",
            "job__time_limit_s",
            "job__project__team_id",
            "placements__allocations__device__model",
        )
    )
    steps = dearest_steps({row[4:] for row in rows}, now=now) if budget.is_money else {}
    holds: dict[int, BudgetHold] = {}
    priced: dict[int, tuple[int, int]] = {}
    for attempt, job, max_cost, limit_s, team, model in rows:
        hold = holds.setdefault(
            attempt, BudgetHold(attempt_id=attempt, budget=budget, gpu_seconds=0)
        )
        hold.gpu_seconds += limit_s
        hold.money += (steps.get((team, model)) or 0) * limit_s
        if budget.is_money and max_cost is not None:
            priced[attempt] = job, max_cost
    spent = spent_of([job for job, _ in priced.values()], but=list(priced))
    for attempt, (job, max_cost) in priced.items():
        holds[attempt].keep_at_most(max(0, max_cost - spent.get(job, 0)))
    return list(holds.values())
