"""GPUs for a time, and budgets of GPU-hours."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import Project, Team, User
from scheduler import events
from scheduler.models import Budget, Grant, Quota
from scheduler.services.errors import Conflict, Invalid, NotFound
from scheduler.services.sharing.limits import MOST_GPUS
from scheduler.services.sharing.rights import require_operator
from scheduler.services.sharing.spans import begin_grant, end_grant
from scheduler.services.sharing.tree import account_of

MOST_GPU_HOURS = 10**9
_S_PER_HOUR = 3600


@transaction.atomic
def add_grant(
    *,
    actor: User,
    quota: Quota,
    valid_from: datetime,
    valid_until: datetime,
    guaranteed: int = 0,
    borrow_limit: int = 0,
    maximum: int = 0,
    reason: str = "",
    now: datetime | None = None,
) -> Grant:
    """More GPUs from one moment until right before another. Raises Invalid, also for nothing."""
    require_operator(actor)
    return give_grant(
        actor=actor,
        quota=quota,
        valid_from=valid_from,
        valid_until=valid_until,
        guaranteed=guaranteed,
        borrow_limit=borrow_limit,
        maximum=maximum,
        reason=reason,
        now=now,
    )


@transaction.atomic
def give_grant(
    *,
    actor: User,
    quota: Quota,
    valid_from: datetime,
    valid_until: datetime,
    guaranteed: int = 0,
    borrow_limit: int = 0,
    maximum: int = 0,
    reason: str = "",
    now: datetime | None = None,
) -> Grant:
    """As `add_grant`, for callers that have asked for the right: approvals have rules of their own.

    Raises Invalid for what has no effect.
    """
    _check_period(valid_from, valid_until, now or timezone.now())
    added = {"guaranteed": guaranteed, "borrow_limit": borrow_limit, "maximum": maximum}
    for field, value in added.items():
        if not 0 <= value <= MOST_GPUS:
            raise Invalid(f"Give a number of GPUs from 0 to {MOST_GPUS}.", field=field)
        if value and field != "guaranteed" and getattr(quota, field) is None:
            raise Invalid(
                f"This has no effect: the quota sets no {field.replace('_', ' ')}.", field=field
            )
    if not any(added.values()):
        raise Invalid("This grants nothing: give GPUs to add.", field="guaranteed")
    if quota.maximum is not None and guaranteed > maximum + quota.maximum - quota.guaranteed:
        raise Invalid(
            "The maximum is reached before this guarantee is used up. Add to the maximum too.",
            field="maximum",
        )
    grant = Grant.objects.create(
        quota=quota,
        **added,
        valid_from=valid_from,
        valid_until=valid_until,
        reason=reason[:255],
        granted_by=actor,
    )
    begin_grant(grant)
    events.wake_scheduler_on_commit()
    return grant


@transaction.atomic
def revoke_grant(*, actor: User, grant_id: int, now: datetime | None = None) -> Grant:
    """It does not count any more; final. Raises NotFound, Conflict if it was revoked before."""
    require_operator(actor)
    grant = Grant.objects.filter(pk=grant_id).first()
    if grant is None:
        raise NotFound("There is no such grant.")
    now = now or timezone.now()
    revoked = Grant.objects.filter(pk=grant_id, revoked_at__isnull=True).update(
        revoked_at=now, revoked_by=actor
    )
    if not revoked:
        raise Conflict("This grant has been revoked already.")
    grant.refresh_from_db()
    end_grant(grant, now=now)
    events.wake_scheduler_on_commit()
    return grant


@transaction.atomic
def set_budget(
    *,
    actor: User,
    owner: Team | Project | None,
    gpu_hours: int,
    valid_from: datetime,
    valid_until: datetime,
    now: datetime | None = None,
) -> Budget:
    """GPU-hours for a period; replaces the one of just this period. Raises Invalid.

    A budget below what is used and committed stops nobody, and lets nobody start.
    """
    require_operator(actor)
    _check_period(valid_from, valid_until, now or timezone.now())
    if not 0 <= gpu_hours <= MOST_GPU_HOURS:
        raise Invalid(f"Give GPU-hours from 0 to {MOST_GPU_HOURS}.", field="gpu_hours")
    account = account_of(owner)
    period: dict[str, Any] = {"valid_from": valid_from, "valid_until": valid_until}
    overlap = (
        Budget.objects.filter(account=account, valid_from__lt=valid_until)
        .filter(valid_until__gt=valid_from)
        .exclude(**period)
        .first()
    )
    if overlap is not None:
        raise Invalid(
            f"There is a budget from {overlap.valid_from:%Y-%m-%d %H:%M} until "
            f"{overlap.valid_until:%Y-%m-%d %H:%M}; periods must not overlap.",
            field="valid_from",
        )
    budget, _ = Budget.objects.update_or_create(
        account=account, **period, defaults={"gpu_seconds": gpu_hours * _S_PER_HOUR}
    )
    events.wake_scheduler_on_commit()
    return budget


def _check_period(valid_from: datetime, valid_until: datetime, now: datetime) -> None:
    for field, moment in (("valid_from", valid_from), ("valid_until", valid_until)):
        if timezone.is_naive(moment):
            raise Invalid("Give a time with its zone, such as 2026-12-01T00:00:00Z.", field=field)
    if valid_from >= valid_until:
        raise Invalid("It must end after it begins.", field="valid_until")
    if valid_until <= now:
        raise Invalid("It is over already and would have no effect.", field="valid_until")
