"""GPUs, or longer jobs, for a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import pictured, record
from scheduler import events
from scheduler.models import Grant, Quota
from scheduler.selectors.sharing.promised.capacity import grant_shortage
from scheduler.selectors.sharing.promised.granted import least_room
from scheduler.services.errors import Conflict, Invalid, NotFound
from scheduler.services.rows.locking import lock_starts
from scheduler.services.sharing.budgets import check_period
from scheduler.services.sharing.limits import MOST_GPUS, MOST_HOURS
from scheduler.services.sharing.rights import about_quota, require_operator
from scheduler.services.sharing.spans import begin_grant, end_grant

# "Now" as it stood in a form that was sent some minutes later.
_PAST = timedelta(minutes=5)


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
    max_hours: int = 0,
    reason: str = "",
    now: datetime | None = None,
) -> Grant:
    """More GPUs from one moment until right before another. Raises Invalid, also for nothing, and
    for a guarantee beyond what is there: that takes a request, which somebody else decides;
    Conflict for the same once more.
    """
    require_operator(actor)
    if guaranteed > 0:
        lock_starts()
    asked: dict[str, Any] = {
        "valid_from": valid_from,
        "valid_until": valid_until,
        "guaranteed": guaranteed,
        "borrow_limit": borrow_limit,
        "maximum": maximum,
        "max_hours": max_hours,
    }
    _refuse_again(actor, quota, {**asked, "reason": reason[:255]}, now or timezone.now())
    if guaranteed > 0:
        _check_capacity(quota, guaranteed, valid_from, valid_until)
    return give_grant(actor=actor, quota=quota, **asked, reason=reason, now=now)


def _refuse_again(actor: User, quota: Quota, same: Mapping[str, object], now: datetime) -> None:
    """Raises Conflict for what this person has granted already: its reply may have been lost."""
    counts = Grant.objects.filter(quota=quota, revoked_at=None, valid_until__gt=now)
    before = counts.filter(granted_by=actor, **same).first()
    if before is not None:
        raise Conflict(
            "You granted just this already, and it counts. To add as much again, give another "
            "reason.",
            facts={"grant": before.pk},
        )


def _check_capacity(
    quota: Quota, guaranteed: int, valid_from: datetime, valid_until: datetime
) -> None:
    found = grant_shortage(quota, guaranteed, valid_from=valid_from, valid_until=valid_until)
    if found is None:
        return
    own = quota.guaranteed + found.granted
    raise Invalid(
        f"With the {own} it has then and {found.words}. Grant at most "
        f"{max(0, found.most - quota.guaranteed)}, or ask for it as a request, which somebody else "
        "decides.",
        field="guaranteed",
        facts=found.plain(),
    )


@transaction.atomic
def give_grant(
    *,
    actor: User | None,
    quota: Quota,
    valid_from: datetime,
    valid_until: datetime,
    guaranteed: int = 0,
    borrow_limit: int = 0,
    maximum: int = 0,
    max_hours: int = 0,
    reason: str = "",
    on_behalf_of: User | None = None,
    now: datetime | None = None,
) -> Grant:
    """As `add_grant`, for callers that have asked for the right: approvals have rules of their own.

    It guarantees from `now` at the earliest: what ran before has its price. Raises Invalid for a
    begin in the past and for what has no effect.
    """
    now = now or timezone.now()
    check_period(valid_from, valid_until, now)
    if valid_from < now - _PAST:
        raise Invalid(
            "This moment has passed, and a grant counts from now on. Let it begin now or later.",
            field="valid_from",
        )
    added = {"guaranteed": guaranteed, "borrow_limit": borrow_limit, "maximum": maximum}
    added["max_hours"] = max_hours
    _check_added(quota, added)
    room = least_room(quota, max(now, valid_from), valid_until) if guaranteed else None
    if room is not None and guaranteed > maximum + room:
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
    begin_grant(grant, now=now)
    about = about_quota(quota)
    after = {**added, "valid_from": valid_from, "valid_until": valid_until}
    record(actor, "quota.grant", about, after=after, reason=reason, on_behalf_of=on_behalf_of)
    events.wake_scheduler_on_commit()
    return grant


def _check_added(quota: Quota, added: Mapping[str, int]) -> None:
    """Raises Invalid for what is no number of them, and for what has no effect."""
    for field, value in added.items():
        unit, most = ("hours", MOST_HOURS) if field == "max_hours" else ("GPUs", MOST_GPUS)
        if not 0 <= value <= most:
            raise Invalid(f"Give a number of {unit} from 0 to {most}.", field=field)
        if value and field != "guaranteed" and getattr(quota, field) is None:
            raise Invalid(
                f"This has no effect: the quota sets no {field.replace('_', ' ')}.", field=field
            )
    if not any(added.values()):
        raise Invalid("This grants nothing: give GPUs or hours to add.", field="guaranteed")


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
    figures = ("guaranteed", "borrow_limit", "maximum", "max_hours")
    before = pictured(grant, *figures, "valid_from", "valid_until")
    record(actor, "quota.revoke_grant", about_quota(grant.quota), before=before)
    events.wake_scheduler_on_commit()
    return grant


__all__ = ["add_grant", "revoke_grant"]
