"""The routing table: how soon, how long at most, and from which amount on more people decide."""

from __future__ import annotations

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
from scheduler.selectors.requesting.rules import (
    USUAL_MOST_DAYS,
    USUAL_SLA_HOURS,
    Routing,
    routing_of,
)
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.states import RequestKind

_MOST_AUTO = 10**6
_DIALS = ("money_limit", "always_admin", "sla_hours", "most_days", "auto_up_to")
_LONGEST_SLA_HOURS, _LONGEST_DAYS = 24 * 90, 3660


def rule_of(row: RequestPolicy | None) -> dict[str, Any]:
    """What a decision remembers of the rule that sent the request there; rules are never edited,
    so which one of its kind it is says all that it said."""
    number = 0
    if row is not None:
        mine = RequestPolicy.objects.filter(kind=row.kind, pk__lte=row.pk, is_end=False)
        number = mine.count()
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
    that amount of this kind where a lead alone could. Raises Invalid, for a rule without effect
    too, and Forbidden.
    """
    _check_right(actor, kind)
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
    _newest_locked(kind)
    wanted = Routing(None, money_limit, always_admin, sla_hours, most_days, auto_up_to)
    _refuse_without_effect(kind, wanted)
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
    record(actor, "policy.request_routing", row, after=pictured(row, "kind", *_DIALS))
    return row


@transaction.atomic
def end_request_policy(
    *, actor: User, kind: str = "", now: datetime | None = None
) -> RequestPolicy:
    """End the rule of this kind: the one for any kind holds again, else what is usual.

    For what is submitted from now on; administrators only. Raises Invalid, Forbidden, and Conflict
    where there is no rule to end.
    """
    _check_right(actor, kind)
    last = _newest_locked(kind)
    if last is None or last.is_end:
        raise Conflict("No rule of this kind holds, so there is none to end.", code="no_rule")
    row = RequestPolicy.objects.create(
        kind=kind, is_end=True, created_at=now or timezone.now(), created_by=actor
    )
    before = pictured(last, "kind", *_DIALS)
    record(actor, "policy.request_routing_end", row, before=before, after=pictured(row, "kind"))
    return row


def _check_right(actor: User, kind: str) -> None:
    if not can(actor, "administer", None):
        raise Forbidden("Only administrators say who decides on requests.")
    if kind and kind not in set(RequestKind):
        raise Invalid(f"Leave the kind empty or use one of {', '.join(RequestKind)}.", field="kind")


def _newest_locked(kind: str) -> RequestPolicy | None:
    """The newest row of just this kind; whoever lays another down waits until this is done."""
    rows = RequestPolicy.objects.filter(kind=kind)
    # The first row stays what it is, so all queue for it.
    rows.select_for_update().order_by("id").first()
    return rows.order_by("-id").first()


def _refuse_without_effect(kind: str, wanted: Routing) -> None:
    """Raises Invalid for what would change nothing."""
    holds = routing_of(kind)
    if all(getattr(holds, dial) == getattr(wanted, dial) for dial in _DIALS):
        raise Invalid("Just this holds already. Change something, or leave it.", field="kind")
    if kind == RequestKind.WALLTIME and wanted.money_limit is not None:
        raise Invalid(
            "Hours of time limit cost nothing, so no cost brings finance in. Leave this empty.",
            field="money_limit",
        )
    if not kind and all((row := routing_of(one).row) and row.kind for one in RequestKind):
        raise Invalid(
            "Every kind has a rule of its own, so one for any kind holds nowhere. Name a kind, or "
            "end one of those rules first.",
            field="kind",
        )


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
