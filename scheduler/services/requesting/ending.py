"""Limits that end by hand before their time: whoever had asked for them is told."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from accounts.models import User
from scheduler.models import Grant, QuotaRequest
from scheduler.services.requesting.timeline import note, tell_asker
from scheduler.services.sharing.grants import revoke_grant
from scheduler.services.sharing.limits import remove_quota


@transaction.atomic
def revoke_and_tell(*, actor: User, grant_id: int, now: datetime | None = None) -> Grant:
    """As `revoke_grant`; the request that it came from says so. Raises NotFound, Conflict."""
    now = now or timezone.now()
    request = _locked().filter(granted=grant_id).first()
    grant = revoke_grant(actor=actor, grant_id=grant_id, now=now)
    if request is not None:
        say_revoked(request, actor, "What runs goes on.", now=now)
    return grant


@transaction.atomic
def remove_and_tell(*, actor: User, quota_id: int, now: datetime | None = None) -> None:
    """As `remove_quota`; requests whose grants on it still counted say so. Raises NotFound."""
    now = now or timezone.now()
    counted = _locked().filter(
        granted__quota=quota_id, granted__revoked_at=None, granted__valid_until__gt=now
    )
    requests = list(counted.order_by("pk"))
    remove_quota(actor=actor, quota_id=quota_id, now=now)
    for request in requests:
        say_revoked(request, actor, "The limit that it was added to is gone.", now=now)


def with_reason(text: str, said: str) -> str:
    """A sentence about an end, and why it was, if somebody said so."""
    return f"{text.rstrip('.')}. Reason: {said}" if said else text


def say_revoked(
    request: QuotaRequest, actor: User, text: str, *, said: str = "", now: datetime
) -> None:
    """In its history and to whoever asked, in the caller's transaction."""
    QuotaRequest.objects.filter(pk=request.pk).update(version=F("version") + 1, touched_at=now)
    request.refresh_from_db()
    note(request, "revoked", actor=actor, now=now, text=said)
    tell_asker(request, "was revoked", with_reason(text, said), now=now)


def _locked() -> QuerySet[QuotaRequest]:
    return QuotaRequest.objects.select_for_update(of=("self",))
