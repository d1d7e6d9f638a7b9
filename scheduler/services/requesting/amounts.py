"""What a request amounts to: the limit it adds to, what a lead has free for it, what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Q

from accounts.models import Project, Team
from scheduler.conf import load_conf
from scheduler.ledger.currencies import exponent_of
from scheduler.ledger.entries import team_account
from scheduler.ledger.rating import ChargeKind, Price
from scheduler.models import Budget, Device, Pool, Quota
from scheduler.money import STEPS, cost_of
from scheduler.selectors.sharing.promised.granted import least_left, limits_over
from scheduler.services.bookings.fitting import most_at_once
from scheduler.services.bookings.quotas import booked_of
from scheduler.services.books.reading import price_list
from scheduler.services.sharing.effective import Effective, effective_of
from scheduler.services.sharing.tree import children
from scheduler.states import RequestKind

MONTH = timedelta(days=30)
S_PER_HOUR = 3600
# kind: the limit of a quota that it adds to
FIELD_OF = {
    RequestKind.GUARANTEED: "guaranteed",
    RequestKind.BORROW: "borrow_limit",
    RequestKind.MAXIMUM: "maximum",
    RequestKind.ACCESS: "maximum",
    RequestKind.WALLTIME: "max_hours",
}
# What is added to a budget, not to a limit of a quota.
BUDGET_KINDS = frozenset({RequestKind.BUDGET, RequestKind.MONEY})

_RUN = (ChargeKind.RUN,)
_ANY_RUN = (ChargeKind.RUN, ChargeKind.RUN_BORROWED)
# What the time that a kind allows may be charged as; a guarantee runs as such alone.
_CHARGED = {
    RequestKind.BORROW: _ANY_RUN,
    RequestKind.MAXIMUM: _ANY_RUN,
    RequestKind.ACCESS: _ANY_RUN,
    RequestKind.BUDGET: _ANY_RUN,
    RequestKind.RESERVATION: (ChargeKind.RUN, ChargeKind.RESERVED_IDLE),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the first 30 days at most, at the dearest price that may apply; None: no price is set."""

    monthly: Decimal | None
    unit_price: Decimal | None
    currency: str


def quota_for(owner: Team | Project, pool: Pool | None, gpu_model: str) -> Quota | None:
    """The quota of just this account, pool and model."""
    key = f"project:{owner.pk}" if isinstance(owner, Project) else f"team:{owner.pk}"
    return Quota.objects.filter(account__key=key, pool=pool, gpu_model=gpu_model).first()


def limits_now(quota: Quota | None, *, now: datetime) -> Effective | None:
    """What the quota amounts to with its active grants."""
    return None if quota is None else effective_of([quota], now=now)[quota.pk]


def budget_at(owner: Team | Project, moment: datetime, *, is_money: bool = False) -> Budget | None:
    """The budget of this account in GPU-hours, or in money, that holds at a moment."""
    key = f"project:{owner.pk}" if isinstance(owner, Project) else f"team:{owner.pk}"
    return Budget.objects.filter(
        account__key=key,
        valid_from__lte=moment,
        valid_until__gt=moment,
        money__isnull=not is_money,
    ).first()


def free_envelope(
    owner: Team | Project,
    kind: RequestKind,
    pool: Pool | None,
    gpu_model: str,
    *,
    start: datetime,
    until: datetime,
    now: datetime,
) -> int | None:
    """What a lead may give this project of what the team has, in the kind's unit; None: no limit.

    Grants begin and end: at the moment of that time at which least is left. Nothing for the team
    itself: what a team has is not its lead's to widen.
    """
    if isinstance(owner, Team):
        return 0
    if kind in BUDGET_KINDS:
        return _free_of_budget(owner, start, is_money=kind is RequestKind.MONEY)
    if kind is RequestKind.RESERVATION:
        return _free_to_book(owner.team, pool, gpu_model, max(now, start), until)
    above, field = quota_for(owner.team, pool, gpu_model), FIELD_OF[kind]
    if above is None:
        return 0 if kind is RequestKind.GUARANTEED else None
    # A guarantee is shared with all others of the team, other limits hold for each by itself.
    team = Q(account__in=children(above.account))
    who = team if kind is RequestKind.GUARANTEED else Q(account__project=owner)
    below = list(Quota.objects.filter(who, pool=pool, gpu_model=gpu_model))
    left = least_left(above, below, field, since=max(now, start), until=until)
    return None if left is None else max(0, left.free)


def _free_to_book(
    team: Team, pool: Pool | None, gpu_model: str, start: datetime, until: datetime
) -> int | None:
    """What the team is guaranteed all that time and neither it nor a team below it has booked; None
    for a team without any quota."""
    quotas = list(
        Quota.objects.filter(
            Q(pool=None) | Q(pool=pool), account__team=team, gpu_model__in={"", gpu_model}
        ).select_related("account")
    )
    if not quotas:
        return None
    taken, free = booked_of(quotas, start, until), []
    for begin, end, own in limits_over(quotas, "guaranteed", start, until):
        most = max(own.values())
        held = {
            pk: [one for one in taken[pk] if one[0] < end and one[1] > begin]
            for pk, guaranteed in own.items()
            if guaranteed == most
        }
        free.append(most - max(most_at_once(each, begin) for each in held.values()))
    return max(0, min(free))


def _free_of_budget(project: Project, moment: datetime, *, is_money: bool) -> int | None:
    """Whole GPU-hours, or units of the currency, that neither a project of the team nor a
    team below it was given yet."""
    budget = budget_at(project.team, moment, is_money=is_money)
    if budget is None:
        return None
    of_those_below = Budget.objects.filter(
        account__in=children(budget.account),
        money__isnull=not is_money,
        valid_from__lt=budget.valid_until,
        valid_until__gt=budget.valid_from,
    )
    given = sum(one.limit for one in of_those_below)
    return max(0, (budget.limit - given) // (STEPS if is_money else S_PER_HOUR))


def cost_of_asking(
    kind: str,
    amount: int,
    pool: Pool | None,
    gpu_model: str,
    *,
    valid_from: datetime,
    valid_until: datetime,
    now: datetime,
    team: int | None = None,
) -> Cost:
    """What it costs if it is used in full; a maximum is priced like what it allows, hours of time
    limit cost nothing by themselves, and money is what it is. What is booked costs used or not.
    At the prices of the `team` (its id) that would use it, agreed later ones included.
    """
    period = valid_until - valid_from
    first = min(period, MONTH)
    first_s, period_s = int(first.total_seconds()), max(1, int(period.total_seconds()))
    if kind == RequestKind.WALLTIME:
        return Cost(Decimal(0), None, load_conf().currency)
    if kind == RequestKind.MONEY:
        currency = load_conf().currency
        share = Decimal(amount) * first_s / period_s
        return Cost(round(share, exponent_of(currency)), None, currency)
    devices = Device.objects.filter(is_present=True, in_service=True)
    if pool is not None:
        devices = devices.filter(node__pool=pool)
    models = {gpu_model} if gpu_model else set(devices.values_list("model", flat=True))
    start = max(now, valid_from)
    until = min(valid_until, start + MONTH)
    charged = _CHARGED.get(RequestKind(kind), _RUN)
    best = _dearest(models or {""}, charged, start=start, until=until, team=team)
    if best is None:
        return Cost(None, None, load_conf().currency)
    seconds = amount * first_s
    if kind == RequestKind.BUDGET:
        seconds = amount * S_PER_HOUR * first_s // period_s
    price = best.per_gpu_hour
    return Cost(cost_of(seconds, price), price, best.currency)


def _dearest(
    models: Iterable[str],
    charged: Iterable[ChargeKind],
    *,
    start: datetime,
    until: datetime,
    team: int | None,
) -> Price | None:
    """The highest price that any of the models has for any of these kinds in `[start, until)`, as
    known now; None if there is none."""
    prices, account = price_list(), "" if team is None else team_account(str(team))
    # Rounded as begins and ends of prices are, so that what begins right now holds.
    start_s, until_s = (math.ceil(moment.timestamp()) for moment in (start, until))
    found = (
        prices.at(model, kind, at_s, account)
        for model in sorted(models)
        for kind in charged
        for at_s in (start_s, *prices.changes(model, kind, start_s, until_s, account))
    )
    known = (price for price in found if price is not None)
    return max(known, key=lambda price: price.per_gpu_hour, default=None)
