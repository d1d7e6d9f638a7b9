"""Budgets that renew themselves: when a period is over the next one begins, once."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts.services import audit
from scheduler import events
from scheduler.models import Budget, Renewal
from scheduler.services.rows.locking import lock_ends, lock_starts
from scheduler.services.sharing.budgets import subject_of
from scheduler.services.sharing.keeping.beginning import begin_budget
from scheduler.services.sharing.keeping.rules import MONTHS, months_later
from scheduler.services.sharing.tree import below

_SAME = (
    "account_id",
    "currency",
    "enforcement",
    "commits_at",
    "grace_s",
    "carry_percent",
    "action",
    "action_at",
)


@transaction.atomic
def renew_budget(budget: Budget, *, now: datetime) -> int:
    """The next period's budget with the usual limit and rules; returns 1, or 0 if there is one.

    It begins with what was used in its period already and holds the worst case of what runs; what
    is carried over is added by whoever carries over. A budget set by hand for the time after stays.
    """
    lock_starts()
    # An end locks its attempt first, then what it settles.
    lock_ends(below(budget.account, "job__project"))
    row = Budget.objects.select_for_update().get(pk=budget.pk)
    if row.renewed_at is not None or not row.renewal:
        return 0
    Budget.objects.filter(pk=row.pk).update(renewed_at=now)
    begin = row.valid_until
    until = months_later(begin, MONTHS[Renewal(row.renewal)])
    beside = Budget.objects.filter(account_id=row.account_id, valid_from__lt=until)
    if beside.filter(valid_until__gt=begin).exists():
        return 0
    usual = row.usual
    following = Budget.objects.create(
        **{name: getattr(row, name) for name in _SAME},
        gpu_seconds=None if row.is_money else usual,
        money=usual if row.is_money else None,
        renewal=row.renewal,
        valid_from=begin,
        valid_until=until,
    )
    begin_budget(following, now=now)
    period = {"valid_from": begin, "valid_until": until, "renews": row.pk}
    audit.record(None, "budget.renew", subject_of(following), after=period, now=now)
    events.wake_scheduler_on_commit()
    return 1
