"""Setting budgets: who may, what is refused, and what a new one begins with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import MAXYEAR, UTC, datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import Project, Team, User
from accounts.permissions import can, on_behalf_of
from accounts.services import audit
from scheduler import events
from scheduler.conf import load_conf
from scheduler.ledger.currencies import exponent_of
from scheduler.models import Account, Budget, CommitsAt
from scheduler.money import MOST_MONEY, from_steps, steps_of
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.rows.counters import MOST_LIMIT
from scheduler.services.rows.locking import lock_ends, lock_starts
from scheduler.services.sharing.keeping.beginning import begin_budget
from scheduler.services.sharing.keeping.pledging import give_back_of
from scheduler.services.sharing.keeping.rules import BudgetRules, check_rules
from scheduler.services.sharing.tree import account_of, below, children, name_of, parent_of
from scheduler.states import budget_words, is_endless, moment_words, span_of

MOST_GPU_HOURS = 10**9
_S_PER_HOUR = 3600
_YEARS = {"valid_from": (2000, 2999), "valid_until": (2000, MAXYEAR)}


@transaction.atomic
def set_budget(
    *,
    actor: User,
    owner: Team | Project | None,
    valid_from: datetime,
    valid_until: datetime,
    gpu_hours: int | None = None,
    amount: Decimal | None = None,
    rules: BudgetRules | None = None,
    version: int | None = None,
    now: datetime | None = None,
) -> Budget:
    """GPU-hours or money for a period; replaces the one of just this period. Raises Invalid.

    A new one begins with what was used in its period before, and holds the worst case of what
    runs. A budget below what is used and committed stops nobody, unless it is to stop; it lets
    nobody start. `version`: of the budget that was read, 0 for none; raises Conflict if it has
    changed since.
    """
    now, rules = now or timezone.now(), rules or BudgetRules()
    require_setter(actor, owner, is_money=amount is not None)
    check_period(valid_from, valid_until, now)
    limits = _limits(gpu_hours, amount)
    period: dict[str, Any] = {"valid_from": valid_from, "valid_until": valid_until}
    check_rules(rules, period)
    lock_starts()
    account = account_of(owner)
    budget = Budget.objects.select_for_update().filter(account=account, **period).first()
    check_version(version, budget.version if budget else 0)
    _refuse_overlap(account, period)
    _check_envelope(account, period, limits, is_bound=not _rules_all(actor, limits))
    before = _picture(budget) if budget else None
    if budget is None:
        # What ends meanwhile finds nothing to settle, and would be held for good.
        lock_ends(below(account, "job__project"))
        budget = Budget(account=account, **period, **limits, **_columns(rules))
        budget.save()
        begin_budget(budget, now=now)
    else:
        _change(budget, limits, rules)
    giver = set_for(actor, owner, is_money=budget.is_money)
    about, after = subject_of(budget), _picture(budget)
    audit.record(actor, "budget.set", about, before=before, after=after, on_behalf_of=giver)
    events.wake_scheduler_on_commit()
    return budget


@transaction.atomic
def remove_budget(*, actor: User, budget: Budget, version: int | None = None) -> None:
    """The account has no budget for this period any more. Raises Conflict for a stale version."""
    found = Budget.objects.select_for_update().filter(pk=budget.pk).first()
    if found is None:
        raise NotFound("There is no such budget.")
    account = found.account
    owner = account.project or account.team
    require_setter(actor, owner, is_money=found.is_money)
    check_version(version, found.version)
    giver = set_for(actor, owner, is_money=found.is_money)
    before = _picture(found)
    audit.record(actor, "budget.remove", subject_of(found), before=before, on_behalf_of=giver)
    found.delete()
    events.wake_scheduler_on_commit()


def may_set_budget(actor: User, owner: Team | Project | None, *, is_money: bool) -> bool:
    """Money is for those who keep the books, GPU-hours for operators, projects also for leads of
    their team."""
    if can(actor, "keep_books" if is_money else "operate", None):
        return True
    return isinstance(owner, Project) and can(actor, "manage_team", owner.team)


def set_for(actor: User, owner: Team | Project | None, *, is_money: bool) -> User | None:
    """In whose place the actor sets it, None in their own right; after `require_setter`."""
    if can(actor, "keep_books" if is_money else "operate", None) or not isinstance(owner, Project):
        return None
    return on_behalf_of(actor, "manage_team", owner.team)


def require_setter(actor: User, owner: Team | Project | None, *, is_money: bool) -> None:
    """Raises Forbidden for everybody who may not."""
    if may_set_budget(actor, owner, is_money=is_money):
        return
    who = "those who keep the books" if is_money else "operators and administrators"
    raise Forbidden(f"Only {who} set this budget; leads set those of their team's projects.")


def check_version(read: int | None, is_now: int) -> None:
    """Raises Conflict if what was read is not what is there now."""
    if read is not None and read != is_now:
        raise Conflict(
            "Somebody changed this meanwhile. Look at it as it is now, then decide again.",
            code="stale_version",
            facts={"version": is_now},
        )


def check_period(valid_from: datetime, valid_until: datetime, now: datetime) -> None:
    """Raises Invalid for a period without zone, without length, that is over, or out of reach."""
    for field, moment in (("valid_from", valid_from), ("valid_until", valid_until)):
        if timezone.is_naive(moment):
            raise Invalid("Give a time with its zone, such as 2026-12-01T00:00:00Z.", field=field)
        _check_year(field, moment)
    if valid_from >= valid_until:
        raise Invalid("It must end after it begins.", field="valid_until")
    if valid_until <= now:
        raise Invalid("It is over already and would have no effect.", field="valid_until")


def _check_year(field: str, moment: datetime) -> None:
    """At the edges of the calendar a moment may have no place in UTC, or no month behind it."""
    first, last = _YEARS[field]
    try:
        year = moment.astimezone(UTC).year
    except OverflowError:
        year = 0
    if not first <= year <= last:
        raise Invalid(f"Choose a year from {first} to {last}.", field=field)


def _limits(gpu_hours: int | None, amount: Decimal | None) -> dict[str, Any]:
    """The columns of the limit; raises Invalid."""
    if (gpu_hours is None) == (amount is None):
        raise Invalid("Give either GPU-hours or an amount of money.", field="gpu_hours")
    if amount is None:
        if not 0 < (gpu_hours or 0) <= MOST_GPU_HOURS:
            raise Invalid(f"Give GPU-hours from 1 to {MOST_GPU_HOURS}.", field="gpu_hours")
        return {"gpu_seconds": (gpu_hours or 0) * _S_PER_HOUR, "money": None, "currency": ""}
    currency = load_conf().currency
    places = exponent_of(currency)
    if not amount.is_finite() or not 0 < amount <= MOST_MONEY:
        raise Invalid(f"Give an amount above 0 and up to {MOST_MONEY:f}.", field="amount")
    if amount != round(amount, places):
        words = f"at most {places} decimals" if places else "no decimals"
        raise Invalid(f"Use {words}: the smallest coin of {currency}.", field="amount")
    return {"gpu_seconds": None, "money": steps_of(amount), "currency": currency}


def _columns(rules: BudgetRules) -> dict[str, Any]:
    return {name: getattr(rules, name) for name in BudgetRules.__dataclass_fields__}


def _picture(budget: Budget) -> dict[str, Any]:
    names = ("gpu_seconds", "currency", "valid_from", "valid_until", "version")
    shown = {**audit.pictured(budget, *names), **_pictured_rules(budget)}
    return shown | ({"amount": from_steps(budget.limit)} if budget.is_money else {})


def _pictured_rules(budget: Budget) -> dict[str, Any]:
    return {name: getattr(budget, name) for name in BudgetRules.__dataclass_fields__}


def subject_of(budget: Budget) -> audit.Subject:
    """A budget as the audit names it: whose, from when until when."""
    account = budget.account
    team = account.team_id or (account.project.team_id if account.project else None)
    label = budget_words(name_of(account), budget.valid_from, budget.valid_until)
    return audit.Subject("budget", str(budget.pk), label, team)


def _refuse_overlap(account: Account, period: Mapping[str, Any]) -> None:
    begins, ends = period["valid_from"], period["valid_until"]
    beside = Budget.objects.filter(account=account, valid_from__lt=ends, valid_until__gt=begins)
    overlap = beside.exclude(**period).first()
    if overlap is not None:
        begin, end = overlap.valid_from, overlap.valid_until
        words = f"from {span_of(begin, end)}"
        if is_endless(end, begin):
            words = f"from {moment_words(begin)} without end"
        raise Invalid(
            f"There is a budget {words}; periods must not overlap.",
            field="valid_from",
        )


def _rules_all(actor: User, limits: Mapping[str, Any]) -> bool:
    return can(actor, "operate" if limits["money"] is None else "keep_books", None)


def _check_envelope(
    account: Account, period: Mapping[str, Any], limits: Mapping[str, Any], *, is_bound: bool
) -> None:
    """A lead gives a team's projects no more than the team has, in a period that the team's covers.

    Others may: a project's budget beyond its team's is stopped by the team's.
    """
    if not is_bound:
        return
    parent, is_money = parent_of(account), limits["money"] is not None
    field = "amount" if is_money else "gpu_hours"
    above = Budget.objects.filter(account=parent, money__isnull=not is_money).filter(
        valid_from__lte=period["valid_from"], valid_until__gte=period["valid_until"]
    )
    envelope = above.first() if parent is not None else None
    if envelope is None:
        raise Invalid(
            "Your team has no budget of this kind over this whole period to give from. Ask for one "
            "first, or choose a period within it.",
            field=field,
        )
    beside = Budget.objects.filter(
        account__in=children(parent) if parent else (),
        money__isnull=not is_money,
        valid_from__gte=envelope.valid_from,
        valid_until__lte=envelope.valid_until,
    ).exclude(account=account, **period)
    others = sum(one.limit for one in beside)
    asked = limits["money"] if is_money else limits["gpu_seconds"]
    if others + asked > envelope.limit:
        left = max(0, envelope.limit - others)
        words = f"{left // _S_PER_HOUR} GPU-hours"
        if is_money:
            words = f"{from_steps(left):.{exponent_of(limits['currency'])}f}"
        raise Invalid(f"Your team has {words} left to give to its projects.", field=field)


def _change(budget: Budget, limits: Mapping[str, Any], rules: BudgetRules) -> None:
    """Another limit and other rules; what was carried over or granted stays on top."""
    if budget.is_money != (limits["money"] is not None):
        measure = "money" if budget.is_money else "GPU-hours"
        raise Invalid(
            f"This budget is in {measure}. Remove it first to set one in the other measure.",
            field="amount" if limits["money"] is not None else "gpu_hours",
        )
    measure = "money" if budget.is_money else "gpu_seconds"
    fields = {**_columns(rules), "version": budget.version + 1}
    fields[measure] = limits[measure] + budget.carried + budget.granted
    if budget.is_money and fields[measure] > MOST_LIMIT:
        raise Invalid(
            f"With what was carried over and granted it may be {MOST_MONEY:f} at most.",
            field="amount",
        )
    # Alerts are looked at anew, and so is whether it still has to stop anybody.
    fields |= {"looked_at": None, "foreseen_at": None, "renewed_at": None}
    if fields[measure] > budget.limit:
        fields["spent_out_at"] = None
    Budget.objects.filter(pk=budget.pk).update(**fields)
    if rules.commits_at != CommitsAt.SUBMIT:
        give_back_of([budget.pk])
    budget.refresh_from_db()


__all__ = [
    "BudgetRules",
    "check_period",
    "check_version",
    "may_set_budget",
    "remove_budget",
    "require_setter",
    "set_budget",
    "set_for",
    "subject_of",
]
