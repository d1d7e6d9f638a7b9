"""Whose turn a simulation is: a worker claims it, and says every now and then that it lives."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from django.db.models import Q, QuerySet
from django.utils import timezone

from scheduler.models import Scenario, WhatIf

# Whose worker has said nothing for so long is taken up by another.
STUCK_AFTER = timedelta(minutes=5)

Row = TypeVar("Row", Scenario, WhatIf)


class ClaimLost(RuntimeError):
    """Another has taken it up, or it was deleted: nobody waits for what is being worked out."""


def waiting(rows: QuerySet[Row]) -> QuerySet[Row]:
    """What nobody works on, oldest first: it waits, or whoever claimed it is silent."""
    left = Q(claimed_at=None) | Q(claimed_at__lt=timezone.now() - STUCK_AFTER)
    return rows.filter(Q(progress="waiting") | Q(left, progress="running")).order_by("id")


def claim(row: Row) -> bool:
    """Take it up as it was read; False if another has done so meanwhile."""
    seen = type(row).objects.filter(pk=row.pk, progress=row.progress, claimed_at=row.claimed_at)
    return _set(row, seen, progress="running", claimed_at=timezone.now())


def tell(row: Row, **fields: object) -> bool:
    """Store these fields and stay alive; False if it is no longer one's own, or was deleted."""
    own = type(row).objects.filter(pk=row.pk, claimed_at=row.claimed_at)
    return _set(row, own, **fields, claimed_at=timezone.now())


def go_on(row: Row, **fields: object) -> None:
    """The same as often as one likes: stored where a field changes, or the worker was silent for a
    tenth of what makes it dead. Raises ClaimLost."""
    since = row.claimed_at
    is_due = since is None or timezone.now() - since >= STUCK_AFTER / 10
    is_due = is_due or any(getattr(row, name) != value for name, value in fields.items())
    if is_due and not tell(row, **fields):
        raise ClaimLost


def _set(row: Row, rows: QuerySet[Row], **fields: object) -> bool:
    if not rows.update(**fields):
        return False
    for name, value in fields.items():
        setattr(row, name, value)
    return True
