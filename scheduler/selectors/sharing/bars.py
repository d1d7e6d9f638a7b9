"""How much of their teams' quotas and budgets is used, for a person's home page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from accounts.models import Membership, User
from accounts.statements import AskedOnceFor
from scheduler.models import Budget, Quota
from scheduler.selectors.saved.scopes import EVERYTHING, Scope
from scheduler.selectors.sharing.budgets import percent_of, printed_of
from scheduler.selectors.sharing.limits import owner_path
from scheduler.selectors.sharing.reckoning import figure_of, standing_of, with_holds

# One more is read, so that a page can say that there are more.
MOST_BARS = 6


def bar_whole(held: int, guaranteed: int, maximum: int | None) -> int:
    """The GPUs that the bar of a quota stands for, on every page: the most it may hold, else what
    is guaranteed or held."""
    return max(1, maximum or 0, guaranteed, held)


@dataclass(frozen=True, slots=True)
class QuotaBar:
    """`held` GPUs of `guaranteed`, with what was granted for now; `maximum` None: no limit."""

    owner: str
    team: str
    scope: str
    held: int
    guaranteed: int
    maximum: int | None

    @property
    def borrowed(self) -> int:
        """What is held beyond the guarantee."""
        return max(0, self.held - self.guaranteed)

    @property
    def whole(self) -> int:
        """What the bar stands for."""
        return bar_whole(self.held, self.guaranteed, self.maximum)


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """Whole percents of a budget that are used, by what runs as well, and kept for what runs and
    waits; `is_out`: none is left; in words: `over`, by how much it is exceeded, and `share`, how
    much is used."""

    owner: str
    team: str
    limit: str
    spent: int
    committed: int
    until: datetime
    is_out: bool
    over: str
    share: str


def _quotas(asked: tuple[int, Scope], now: datetime) -> QuerySet[Quota]:
    granted = Q(grants__revoked_at=None, grants__valid_from__lte=now, grants__valid_until__gt=now)
    rows = Quota.objects.filter(_of_teams(*asked)).annotate(
        more_guaranteed=Coalesce(Sum("grants__guaranteed", filter=granted), 0),
        more_maximum=Coalesce(Sum("grants__maximum", filter=granted), 0),
    )
    return rows.select_related("account__team", "account__project__team", "pool")[: MOST_BARS + 1]


_QUOTAS: AskedOnceFor[tuple[int, Scope]] = AskedOnceFor(_quotas)


def quota_bars(viewer: User, *, now: datetime, within: Scope = EVERYTHING) -> Sequence[QuotaBar]:
    """Of the teams one is in, or of the scope, as they hold now; one query."""
    asked = viewer.pk, within
    return [_quota_bar(quota) for quota in _QUOTAS.read(asked, asked, now)]


def _quota_bar(quota: Any) -> QuotaBar:
    maximum = quota.maximum
    pool = quota.pool.name if quota.pool else "all pools"
    return QuotaBar(
        owner=owner_path(quota),
        team=owner_path(quota).partition("/")[0],
        scope=f"{pool}, {quota.gpu_model}" if quota.gpu_model else pool,
        held=quota.held,
        guaranteed=quota.guaranteed + quota.more_guaranteed,
        maximum=None if maximum is None else maximum + quota.more_maximum,
    )


def _budgets(asked: tuple[int, Scope], now: datetime) -> QuerySet[Budget]:
    rows = Budget.objects.filter(_of_teams(*asked), valid_from__lte=now, valid_until__gt=now)
    rows = rows.select_related("account__team", "account__project__team")
    return with_holds(rows.order_by("valid_until", "pk")[: MOST_BARS + 1])


_BUDGETS: AskedOnceFor[tuple[int, Scope]] = AskedOnceFor(_budgets)


def budget_bars(viewer: User, *, now: datetime, within: Scope = EVERYTHING) -> Sequence[BudgetBar]:
    """Of the teams one is in, or of the scope, those of this moment; one query."""
    asked = viewer.pk, within
    return [
        BudgetBar(
            owner=owner_path(budget),
            team=owner_path(budget).partition("/")[0],
            limit=figure_of(budget, budget.limit),
            spent=percent_of(standing.used, budget.limit),
            committed=percent_of(standing.kept, budget.limit),
            until=budget.valid_until,
            is_out=standing.used >= budget.limit,
            over=printed_of(budget, standing).over_words(standing),
            share=printed_of(budget, standing).share_words(standing.used),
        )
        for budget in _BUDGETS.read(asked, asked, now)
        for standing in [standing_of(budget, now=now)]
    ]


def _of_teams(viewer: int, within: Scope) -> Q:
    if within.project_id is not None:
        # What the team may do holds for its projects, too.
        return Q(account__project=within.project_id) | Q(account__team=within.team_id)
    if within:
        return Q(account__team__in=within.teams) | Q(account__project__team__in=within.teams)
    teams = Membership.objects.filter(user=viewer).order_by().values("team")
    return Q(account__team__in=teams) | Q(account__project__team__in=teams)
