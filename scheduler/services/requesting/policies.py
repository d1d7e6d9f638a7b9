"""The routing table: how soon, how long at most, and from which amount on more people decide."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.services.audit import pictured, record
from scheduler.models import RequestPolicy
from scheduler.money import MOST_MONEY, PRICE_DECIMALS
from scheduler.services.errors import Forbidden, Invalid
from scheduler.states import RequestKind

# Of a month's cost, in the currency of the prices.
USUAL_MONEY_LIMIT = Decimal(10_000)
USUAL_SLA_HOURS, USUAL_MOST_DAYS = 48, 365
# What is booked is taken from everybody else, used or not.
USUAL_BOOKED_DAYS = 30
_MOST_AUTO = 10**6
_LONGEST_SLA_HOURS, _LONGEST_DAYS = 24 * 90, 3660


@dataclass(frozen=True, slots=True)
class Routing:
    """What holds for one kind; `row` is None while nobody has laid anything down."""

    row: RequestPolicy | None
    money_limit: Decimal | None
    always_admin: bool
    sla_hours: int
    most_days: int
    auto_up_to: int | None = None


def routing_of(kind: str) -> Routing:
    """The newest rule of this kind, else the newest for any kind, else what is usual."""
    rows = list(RequestPolicy.objects.filter(kind__in=["", kind]).order_by("-id"))
    rows.sort(key=lambda row: row.kind == "")
    if not rows:
        days = USUAL_BOOKED_DAYS if kind == RequestKind.RESERVATION else USUAL_MOST_DAYS
        return Routing(None, USUAL_MONEY_LIMIT, False, USUAL_SLA_HOURS, days)
    row = rows[0]
    auto_up_to = row.auto_up_to if row.kind else None
    return Routing(row, row.money_limit, row.always_admin, row.sla_hours, row.most_days, auto_up_to)


def rule_of(row: RequestPolicy | None) -> dict[str, Any]:
    """What a decision remembers of the rule that sent the request there; rules are never edited,
    so which one of its kind it is says all that it said."""
    number = 0
    if row is not None:
        number = RequestPolicy.objects.filter(kind=row.kind, pk__lte=row.pk).count()
    return {"policy": row, "policy_version": number}


@transaction.atomic
def set_request_policy(
    *,
    actor: User,
    kind: str = "",
    money_limit: Decimal | None = None,
    always_admin: bool = False,
    sla_hours: int = USUAL_SLA_HOURS,
    most_days: int = USUAL_MOST_DAYS,
    auto_up_to: int | None = None,
    now: datetime | None = None,
) -> RequestPolicy:
    """A new rule, in force for what is submitted from now on; administrators only.

    Without a `money_limit` no amount goes to finance; with `auto_up_to` nobody has to agree up to
    that amount of this kind where a lead alone could. Raises Invalid, Forbidden.
    """
    if not can(actor, "administer", None):
        raise Forbidden("Only administrators say who decides on requests.")
    if kind and kind not in set(RequestKind):
        raise Invalid(f"Leave the kind empty or use one of {', '.join(RequestKind)}.", field="kind")
    if money_limit is not None:
        if not money_limit.is_finite() or not 0 <= money_limit <= MOST_MONEY:
            raise Invalid(f"Give an amount from 0 to {MOST_MONEY}.", field="money_limit")
        if money_limit != round(money_limit, PRICE_DECIMALS):
            raise Invalid(f"Use at most {PRICE_DECIMALS} decimals.", field="money_limit")
    if not 1 <= sla_hours <= _LONGEST_SLA_HOURS:
        raise Invalid(f"Give 1 to {_LONGEST_SLA_HOURS} hours.", field="sla_hours")
    if not 1 <= most_days <= _LONGEST_DAYS:
        raise Invalid(f"Give 1 to {_LONGEST_DAYS} days.", field="most_days")
    _check_auto(kind, auto_up_to, always_admin=always_admin)
    row = RequestPolicy.objects.create(
        kind=kind,
        money_limit=money_limit,
        always_admin=always_admin,
        sla_hours=sla_hours,
        most_days=most_days,
        auto_up_to=auto_up_to,
        created_at=now or timezone.now(),
        created_by=actor,
    )
    fields = ("kind", "money_limit", "always_admin", "sla_hours", "most_days", "auto_up_to")
    record(actor, "policy.request_routing", row, after=pictured(row, *fields))
    return row


def _check_auto(kind: str, auto_up_to: int | None, *, always_admin: bool) -> None:
    """Raises Invalid: what nobody looks at is said for one kind, and for a number of it."""
    if auto_up_to is None:
        return
    if not kind:
        raise Invalid("Say for which one kind; leave this empty for any.", field="auto_up_to")
    if always_admin:
        raise Invalid(
            "An administrator always agrees, so nothing can go by itself; leave this empty.",
            field="auto_up_to",
        )
    if not 1 <= auto_up_to <= _MOST_AUTO:
        raise Invalid(f"Give a whole number from 1 to {_MOST_AUTO}.", field="auto_up_to")
