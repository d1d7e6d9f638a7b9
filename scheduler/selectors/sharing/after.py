"""What quotas and budgets would look like with one more job, at its worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from accounts.models import Project, User
from accounts.selectors import get_visible_project
from accounts.trees import ways_up
from scheduler.models import Account, Budget, Grant, Pool, Quota
from scheduler.money import from_steps, steps_of_cost

_S_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class LimitAfter:
    """GPUs of a quota: `held` now, `after` with the job; `borrowed` of these are not its own."""

    whose: str
    scope: str
    held: int
    after: int
    guaranteed: int
    maximum: int | None
    borrowed: int
    is_over: bool


@dataclass(frozen=True, slots=True)
class BudgetAfter:
    """Left now and after the job's worst case, in GPU-hours or money; None if nobody knows.

    `commits_at`: whether a submit or a start commits it.
    """

    whose: str
    unit: str
    left: Decimal
    after: Decimal | None
    enforcement: str
    is_over: bool
    commits_at: str


def limits_after(
    viewer: User, path: str, pool: Pool, gpu_model: str, gpus: int, *, now: datetime
) -> tuple[LimitAfter, ...]:
    """Of the project at `path` and all above it, from the root down; three queries."""
    project = get_visible_project(viewer, path)
    quotas = Quota.objects.filter(account__key__in=_keys(project)).select_related(
        "account__team", "account__project", "pool"
    )
    concerned = [
        quota
        for quota in quotas
        if quota.pool_id in (None, pool.pk)
        and quota.gpu_model in ("", gpu_model or quota.gpu_model)
    ]
    active = Grant.objects.filter(
        quota__in=concerned, valid_from__lte=now, valid_until__gt=now, revoked_at__isnull=True
    )
    grants = list(active)
    return tuple(
        _limit(quota, [g for g in grants if g.quota_id == quota.pk], gpus) for quota in concerned
    )


def _limit(quota: Quota, grants: Sequence[Grant], gpus: int) -> LimitAfter:
    guaranteed = quota.guaranteed + sum(grant.guaranteed for grant in grants)
    maximum = quota.maximum
    if maximum is not None:
        maximum += sum(grant.maximum for grant in grants)
    after = quota.held + gpus
    return LimitAfter(
        whose=_whose(quota.account),
        scope=f"{quota.gpu_model or 'any GPU'} in {quota.pool.name if quota.pool else 'all pools'}",
        held=quota.held,
        after=after,
        guaranteed=guaranteed,
        maximum=maximum,
        borrowed=max(0, after - guaranteed),
        is_over=maximum is not None and after > maximum,
    )


def budgets_after(
    viewer: User, path: str, gpu_seconds: int, cost: Decimal | None, *, now: datetime
) -> tuple[BudgetAfter, ...]:
    """Budgets in force of the project at `path` and all above it; three queries."""
    project = get_visible_project(viewer, path)
    budgets = Budget.objects.filter(
        account__key__in=_keys(project), valid_from__lte=now, valid_until__gt=now
    ).select_related("account__team", "account__project")
    return tuple(_budget(budget, gpu_seconds, cost) for budget in budgets)


def _budget(budget: Budget, gpu_seconds: int, cost: Decimal | None) -> BudgetAfter:
    left = budget.limit - budget.committed - budget.spent
    if not budget.is_money:
        need, unit = gpu_seconds, "GPU-hours"
        now_left, after = Decimal(left) / _S_PER_HOUR, Decimal(left - need) / _S_PER_HOUR
        return BudgetAfter(
            _whose(budget.account),
            unit,
            now_left,
            after,
            budget.enforcement,
            need > left,
            budget.commits_at,
        )
    need_money = None if cost is None else steps_of_cost(cost)
    return BudgetAfter(
        whose=_whose(budget.account),
        unit=budget.currency,
        left=from_steps(left),
        after=None if need_money is None else from_steps(left - need_money),
        enforcement=budget.enforcement,
        is_over=need_money is None or need_money > left,
        commits_at=budget.commits_at,
    )


def _keys(project: Project) -> tuple[str, ...]:
    """The organisation, the teams on the project's way up, and itself; one query."""
    teams = (project.team_id, *ways_up([project.team_id])[project.team_id])
    return "org", *(f"team:{pk}" for pk in teams), f"project:{project.pk}"


def _whose(account: Account) -> str:
    if account.project is not None:
        return f"project {account.project.slug}"
    return f"team {account.team.slug}" if account.team is not None else "the organisation"
