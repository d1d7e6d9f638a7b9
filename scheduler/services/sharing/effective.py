"""What a quota amounts to at a moment: its own figures and the grants that are active then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import QuerySet

from scheduler.models import Grant, Quota


@dataclass(frozen=True, slots=True)
class Effective:
    """GPUs, and hours of the longest job; None sets no limit, and no grant can lower that."""

    guaranteed: int
    borrow_limit: int | None
    lend_limit: int | None
    maximum: int | None
    max_hours: int | None = None


def active_grants(now: datetime) -> QuerySet[Grant]:
    """Grants that count at this moment: begun, not over, not revoked."""
    return Grant.objects.filter(valid_from__lte=now, valid_until__gt=now, revoked_at__isnull=True)


def effective_of(quotas: Iterable[Quota], *, now: datetime) -> dict[int, Effective]:
    """By id: the quota plus its active grants, in one query."""
    found = {
        quota.pk: Effective(
            quota.guaranteed,
            quota.borrow_limit,
            quota.lend_limit,
            quota.maximum,
            quota.max_hours,
        )
        for quota in quotas
    }
    grants = active_grants(now).filter(quota_id__in=found)
    for pk, guaranteed, borrow, maximum, hours in grants.values_list(
        "quota_id", "guaranteed", "borrow_limit", "maximum", "max_hours"
    ):
        base = found[pk]
        found[pk] = replace(
            base,
            guaranteed=base.guaranteed + guaranteed,
            borrow_limit=None if base.borrow_limit is None else base.borrow_limit + borrow,
            maximum=None if base.maximum is None else base.maximum + maximum,
            max_hours=None if base.max_hours is None else base.max_hours + hours,
        )
    return found
