"""What somebody has now: limits in force, what is held of them, and what was used lately; what a
grant would cost, and what there is to pay it with and to grant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, Sum, Value

from accounts.models import Project, Team, User
from scheduler.models import Budget, Device, Quota, QuotaRequest, WhatIf
from scheduler.money import from_steps
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.requesting import used_lately
from scheduler.selectors.sharing.promised.capacity import most_promised
from scheduler.services.bookings.requested import booked_then, fit_of
from scheduler.services.errors import Invalid
from scheduler.services.requesting.amounts import S_PER_HOUR, budget_at, cost_of_asking
from scheduler.services.requesting.foreseeing.replaying import Question, gpus_in_service
from scheduler.services.sharing.effective import Effective, quotas_in_force
from scheduler.states import RequestKind


@dataclass(frozen=True, slots=True)
class Row:
    """One quota with the grants in force; `is_team`: it holds for the whole team."""

    quota: Quota
    limits: Effective
    is_team: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """`used_gpu_s` are the GPU-seconds of the last 90 days."""

    rows: Sequence[Row]
    used_gpu_s: int


def standing_of(owner: Team | Project, *, now: datetime, used_gpu_s: int | None = None) -> Standing:
    """Of a project also what its team has; two statements, one where the use is known."""
    team_id = owner.team_id if isinstance(owner, Project) else owner.pk
    mine = Q(account__team=team_id)
    if isinstance(owner, Project):
        mine |= Q(account__project=owner)
    quotas = Quota.objects.filter(mine).select_related("account", "pool")
    found = quotas_in_force(quotas, now=now)
    rows = [Row(one, limits, one.account.team_id is not None) for one, limits in found]
    if used_gpu_s is None:
        of_owner = {"project": owner} if isinstance(owner, Project) else {"project__team": owner}
        used = used_lately(now).filter(**of_owner)
        used_gpu_s = used.aggregate(total=Sum("gpu_seconds"))["total"] or 0
    return Standing(rows, used_gpu_s)


def offered_to(viewer: User) -> tuple[list[str], list[str]]:
    """Pools to ask for, and models of GPUs that are or were here, by name; they are no secret."""
    pools = visible_pools(viewer).order_by().values_list(Value("pool"), "name")
    models = Device.objects.order_by().values_list(Value("model"), "model")
    found = pools.union(models)  # each name of a kind once
    return (
        sorted(name for kind, name in found if kind == "pool"),
        sorted(name for kind, name in found if kind == "model"),
    )


def money_and_room(row: WhatIf, question: Question, *, now: datetime) -> dict[str, Any]:
    """Cost of each choice, what the budget has left, what is guaranteed of what is there."""
    request = row.request
    asked = request.versions.get(number=row.revision)
    costs = [
        cost_of_asking(
            *(request.kind, amount, request.pool, request.gpu_model),
            valid_from=asked.valid_from,
            valid_until=row.valid_until,
            now=now,
            team=request.team_id,
        )
        for amount in question.amounts
    ]
    has_price = costs[0].monthly is not None
    # What is granted is added to what holds when it begins.
    start = max(now, asked.valid_from)
    budget = budget_at(question.owner, start) or budget_at(question.team, start)
    purse = budget_at(question.owner, start, is_money=True) or budget_at(
        question.team, start, is_money=True
    )
    return {
        "monthly_cost": ["0", *(str(one.monthly) for one in costs)] if has_price else None,
        "currency": costs[0].currency,
        "budget_hours_left": _hours_left(budget, request, question.amounts),
        "budget_money_left": _money_left(purse, request, question.amounts),
        "capacity": _capacity(request, question.amounts, start, row.valid_until),
        "booking": _booking(question, now=now) if question.hours else None,
    }


def _booking(question: Question, *, now: datetime) -> dict[str, Any]:
    """The most GPUs that are booked then, without and with each choice, and what is in the way of
    all of it.
    """
    assert question.hours is not None
    assert question.pool is not None
    begin, end = question.hours
    others = booked_then(begin, end, now=now, pool=question.pool)
    clash = ""
    try:
        fit_of(
            actor=None,
            owner=question.owner,
            pool=question.pool,
            gpu_model=question.gpu_model,
            gpus=question.amounts[-1],
            from_at=begin,
            until_at=end,
            now=now,
        )
    except Invalid as refused:
        clash = refused.detail
    return {
        "in_service": gpus_in_service(question.pool, question.gpu_model),
        "booked": [others, *(others + one for one in question.amounts)],
        "clash": clash,
    }


def _hours_left(
    budget: Budget | None, request: QuotaRequest, amounts: Sequence[int]
) -> list[int] | None:
    """What is neither used nor committed now; for GPU-hours also with each choice."""
    if budget is None:
        return None
    left = (budget.limit - budget.committed - budget.spent) // S_PER_HOUR
    more = amounts if request.kind == RequestKind.BUDGET else [0] * len(amounts)
    return [left, *(left + one for one in more)]


def _money_left(
    budget: Budget | None, request: QuotaRequest, amounts: Sequence[int]
) -> list[str] | None:
    """The same of a budget in money, to the cent."""
    if budget is None:
        return None
    left = from_steps(budget.limit - budget.committed - budget.spent)
    more = amounts if request.kind == RequestKind.MONEY else [0] * len(amounts)
    return [f"{left:.2f}", *(f"{left + one:.2f}" for one in more)]


def _capacity(
    request: QuotaRequest, amounts: Sequence[int], start: datetime, until: datetime
) -> dict[str, Any]:
    """GPUs in service, guaranteed to teams without and with each choice, and by how much too many:
    when, and of what, most would be lacking.
    """
    is_added = request.kind == RequestKind.GUARANTEED and request.project_id is None
    more = [0, *(one if is_added else 0 for one in amounts)]
    scope = (request.pool_id, request.gpu_model)
    found = most_promised(request.team, scope, more, since=start, until=until)
    pool_id, gpu_model = found.scope
    return {
        "pool": request.pool.name if request.pool is not None and pool_id is not None else "",
        "gpu_model": gpu_model,
        "is_wider": found.scope != scope,
        "in_service": found.in_service,
        "headroom": found.headroom,
        "guaranteed": list(found.guaranteed),
        "oversubscribed_by": list(found.lacking),
    }
