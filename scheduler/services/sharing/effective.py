"""What a quota amounts to at a moment: its own figures and the grants that are active then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Any

from django.db.models import OuterRef, QuerySet

from accounts.models.rows import as_rows, rows_in
from accounts.statements import AskedOnce
from scheduler.models import Grant, Quota

_ADDED = ("guaranteed", "borrow_limit", "maximum", "max_hours")


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


def effective_of(
    quotas: Iterable[Quota], *, now: datetime, whole: bool = False
) -> dict[int, Effective]:
    """By id: the quota plus its active grants, in one query. `whole`: they are about all there are,
    so that nobody has to be told which."""
    found = {quota.pk: _own(quota) for quota in quotas}
    if not found:
        return found
    of_these = active_grants(now).filter(quota_id__in=found)
    grants = GRANTS.read(now) if whole else of_these.values_list("quota_id", *_ADDED)
    for pk, *grant in grants:
        if pk in found:
            found[pk] = _plus(found[pk], *grant)
    return found


def _grants(now: datetime) -> QuerySet[Grant, tuple[Any, ...]]:
    return active_grants(now).values_list("quota_id", *_ADDED)


GRANTS = AskedOnce(_grants)


def quotas_in_force(quotas: QuerySet[Quota], *, now: datetime) -> Sequence[tuple[Quota, Effective]]:
    """The same for quotas that are still to be read; one statement for both."""
    given = as_rows(active_grants(now).filter(quota=OuterRef("pk")), *_ADDED)
    rows: list[Any] = list(quotas.annotate(given=given))
    return [
        (one, reduce(lambda so_far, more: _plus(so_far, *more), rows_in(one.given), _own(one)))
        for one in rows
    ]


def _own(quota: Quota) -> Effective:
    return Effective(
        quota.guaranteed, quota.borrow_limit, quota.lend_limit, quota.maximum, quota.max_hours
    )


def _plus(base: Effective, guaranteed: int, borrow: int, maximum: int, hours: int) -> Effective:
    return replace(
        base,
        guaranteed=base.guaranteed + guaranteed,
        borrow_limit=None if base.borrow_limit is None else base.borrow_limit + borrow,
        maximum=None if base.maximum is None else base.maximum + maximum,
        max_hours=None if base.max_hours is None else base.max_hours + hours,
    )
