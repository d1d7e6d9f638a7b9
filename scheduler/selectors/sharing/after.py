"""What quotas and budgets would look like with one more job, at its worst."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from accounts.models import Project, User
from accounts.selectors import get_visible_project
from accounts.trees import ways_up
from scheduler.models import Account, Budget, BudgetPledge, Grant, Job, Pool, Quota
from scheduler.money import from_steps, steps_of_cost
from scheduler.selectors.jobs import check_visible

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

    `commits_at`: whether a submit or a start commits it; `is_committed`: it is already. `until`:
    when its period is over, after which the next budget comes by itself if it `renews`.
    """

    whose: str
    unit: str
    left: Decimal
    after: Decimal | None
    enforcement: str
    is_over: bool
    commits_at: str
    until: datetime
    renews: bool
    is_committed: bool = False


@dataclass(frozen=True, slots=True)
class After:
    """What one more job leaves of all that it is counted in."""

    limits: tuple[LimitAfter, ...]
    budgets: tuple[BudgetAfter, ...]


def left_after(
    viewer: User,
    path: str,
    pool: Pool,
    models: Collection[str],
    *,
    gpus: int,
    gpu_seconds: int,
    cost: Decimal | None,
    now: datetime,
) -> After:
    """With a new job of the project at `path`, of it and of all above it, from the root down; five
    queries. `models`: what it names, each of which will do; none for any. `gpus`: those it holds at
    a time."""
    keys = _keys(get_visible_project(viewer, path))
    return After(
        _limits(keys, pool, models, gpus, now),
        tuple(_budget(one, gpu_seconds, cost) for one in _in_force(keys, now)),
    )


def left_after_waiting(viewer: User, job: Job, cost: Decimal | None, *, now: datetime) -> After:
    """With this one, which waits; what it has pledged is not taken twice. Four queries."""
    check_visible(viewer, job)
    keys = _keys(job.project)
    mine = BudgetPledge.objects.filter(budget=OuterRef("pk"), job=job)
    budgets: Any = _in_force(keys, now).annotate(
        pledged_s_=Subquery(mine.values("gpu_seconds")), pledged_=Subquery(mine.values("money"))
    )
    seconds = job.gpus * job.time_limit_s
    found = []
    for one in budgets:
        pledged = one.pledged_ if one.is_money else one.pledged_s_
        found.append(_budget(one, seconds, cost, pledged or 0))
    models = job.gpu_models or [job.gpu_model]
    return After(_limits(keys, job.pool, models, job.gpus, now), tuple(found))


def _in_force(keys: Sequence[str], now: datetime) -> QuerySet[Budget]:
    found = Budget.objects.filter(account__key__in=keys, valid_from__lte=now, valid_until__gt=now)
    return found.select_related("account__team", "account__project")


def _limits(
    keys: Sequence[str], pool: Pool, models: Collection[str], gpus: int, now: datetime
) -> tuple[LimitAfter, ...]:
    quotas = Quota.objects.filter(account__key__in=keys).select_related(
        "account__team", "account__project", "pool"
    )
    named = {model for model in models if model}
    concerned = [
        quota
        for quota in quotas
        if quota.pool_id in (None, pool.pk) and (not named or quota.gpu_model in {"", *named})
    ]
    active = Grant.objects.filter(
        quota__in=concerned, valid_from__lte=now, valid_until__gt=now, revoked_at__isnull=True
    )
    grants: dict[int, list[Grant]] = defaultdict(list)
    for grant in active:
        grants[grant.quota_id].append(grant)
    return tuple(_limit(quota, grants.get(quota.pk, ()), gpus) for quota in concerned)


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


def _budget(
    budget: Budget, gpu_seconds: int, cost: Decimal | None, pledged: int = 0
) -> BudgetAfter:
    """`pledged`: what the job has committed of it already, in the budget's own measure and at the
    price of then."""
    left = budget.limit - budget.committed - budget.spent + pledged
    need: int | None = pledged or gpu_seconds
    if budget.is_money and not pledged:
        need = None if cost is None else steps_of_cost(cost)
    return BudgetAfter(
        whose=_whose(budget.account),
        unit=budget.currency if budget.is_money else "GPU-hours",
        left=_told(budget, left),
        after=None if need is None else _told(budget, left - need),
        enforcement=budget.enforcement,
        is_over=not pledged and (need is None or need > left),
        commits_at=budget.commits_at,
        until=budget.valid_until,
        renews=bool(budget.renewal),
        is_committed=bool(pledged),
    )


def _told(budget: Budget, figure: int) -> Decimal:
    """A figure of a budget in its unit."""
    return from_steps(figure) if budget.is_money else Decimal(figure) / _S_PER_HOUR


def _keys(project: Project) -> tuple[str, ...]:
    """The organisation, the teams on the project's way up, and itself; one query."""
    teams = (project.team_id, *ways_up([project.team_id])[project.team_id])
    return "org", *(f"team:{pk}" for pk in teams), f"project:{project.pk}"


def _whose(account: Account) -> str:
    if account.project is not None:
        return f"project {account.project.slug}"
    return f"team {account.team.slug}" if account.team is not None else "the organisation"
