"""Telling everybody something for some time; for operators."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.services.audit import record
from scheduler.models import Announcement
from scheduler.services.errors import Conflict, Forbidden, Invalid

LONGEST = timedelta(days=90)
# What everybody is told is read as long as it is little.
MOST_AT_ONCE = 5


@transaction.atomic
def announce(
    *,
    actor: User,
    text: str,
    from_at: datetime | None = None,
    until_at: datetime,
    is_warning: bool = False,
    now: datetime | None = None,
) -> Announcement:
    """Show it on every home page. Raises Forbidden, Invalid, Conflict when there are many."""
    now = now or timezone.now()
    _check(actor)
    text, begins = " ".join(text.split()), from_at or now
    if not 0 < len(text) <= 500 or not text.isprintable():
        raise Invalid("Write 1 to 500 printable characters.", field="text")
    if until_at <= max(begins, now):
        raise Invalid("The end must lie ahead, after the beginning.", field="until_at")
    if until_at - begins > LONGEST:
        raise Invalid(f"It stands for {LONGEST.days} days at most.", field="until_at")
    ahead = Announcement.objects.filter(ended_at__isnull=True, until_at__gt=now)
    if ahead.count() >= MOST_AT_ONCE:
        raise Conflict(f"{MOST_AT_ONCE} announcements are open; end one first.")
    row = Announcement.objects.create(
        text=text,
        is_warning=is_warning,
        from_at=begins,
        until_at=until_at,
        author=actor,
        created_at=now,
    )
    record(actor, "policy.announce", row, after={"text": text, "until_at": until_at}, now=now)
    return row


@transaction.atomic
def end_announcement(
    *, actor: User, announcement: Announcement, now: datetime | None = None
) -> Announcement:
    """Take it back; raises Forbidden, Conflict where it is over."""
    _check(actor)
    now = now or timezone.now()
    row = Announcement.objects.select_for_update().get(pk=announcement.pk)
    if row.ended_at is not None or row.until_at <= now:
        raise Conflict("It is over already.")
    row.ended_at = now
    row.save(update_fields=["ended_at"])
    record(actor, "policy.end_announcement", row, before={"text": row.text}, now=now)
    return row


def _check(actor: User) -> None:
    if not can(actor, "operate", None):
        raise Forbidden("Only operators announce something to everybody.")
