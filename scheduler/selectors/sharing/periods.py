"""Which budgets count at a moment."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet

from scheduler.models import Budget, Enforcement


def in_force(now: datetime) -> QuerySet[Budget]:
    """Budgets of the periods that run now, from the root down."""
    return _from_the_root(Q(valid_from__lte=now, valid_until__gt=now))


def in_force_or_late(now: datetime) -> QuerySet[Budget]:
    """The same, and those that are over and whose next one is still to be made (`is_late`): until
    then nobody starts on their account, since nobody could say what of it is left."""
    late = to_renew(now) & Q(enforcement=Enforcement.RESERVE)
    return _from_the_root(Q(valid_from__lte=now, valid_until__gt=now) | late)


def to_renew(now: datetime) -> Q:
    """Of budgets that are over: those whose next period's is still to be made."""
    return Q(valid_until__lte=now, renewed_at__isnull=True) & ~Q(renewal="")


def is_late(budget: Budget, now: datetime) -> bool:
    """Of `in_force_or_late`: whether its period is over."""
    return budget.valid_until <= now


def _from_the_root(which: Q) -> QuerySet[Budget]:
    return Budget.objects.filter(which).order_by("account__depth", "pk")
