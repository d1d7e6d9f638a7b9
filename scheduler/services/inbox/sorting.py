"""What people do with what they were told: read it, mute a thing, choose kinds."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler import events
from scheduler.models import Notification, NotificationChoice, NotificationMute
from scheduler.services.errors import Conflict, Invalid, NotFound
from scheduler.states import ASKED_KINDS, NoticeKind

# More than anybody sorts by hand; beyond it muting a kind is what helps.
MOST_MUTES = 500


@transaction.atomic
def mark_read(
    *, actor: User, subject: str = "", up_to: int | None = None, now: datetime | None = None
) -> int:
    """Mark the actor's unread notifications as read: of one thing, or all; returns how many.

    `up_to`: no later ones than this, which came while the page was open.
    """
    rows = Notification.objects.filter(person=actor, read_at__isnull=True)
    if subject:
        rows = rows.filter(subject=subject)
    if up_to is not None:
        rows = rows.filter(pk__lte=up_to)
    count = rows.update(read_at=now or timezone.now())
    events.publish_on_commit(f"user:{actor.pk}", "read")
    return count


@transaction.atomic
def mute(*, actor: User, subject: str, now: datetime | None = None) -> NotificationMute:
    """Tell the actor no more of one thing they were told of; Conflict when too many are muted."""
    latest = Notification.objects.filter(person=actor, subject=subject).order_by("-id").first()
    if latest is None:
        raise NotFound("There is no such thing in your notifications.")
    mutes = NotificationMute.objects.filter(person=actor)
    if not mutes.filter(subject=subject).exists() and mutes.count() >= MOST_MUTES:
        raise Conflict(f"{MOST_MUTES} things are muted; let some speak again, or mute a kind.")
    now = now or timezone.now()
    row, _ = mutes.get_or_create(
        person=actor, subject=subject, defaults={"title": latest.title, "at": now}
    )
    mark_read(actor=actor, subject=subject, now=now)
    return row


@transaction.atomic
def unmute(*, actor: User, subject: str) -> bool:
    """Tell the actor of it again; False when it was not muted."""
    count, _ = NotificationMute.objects.filter(person=actor, subject=subject).delete()
    events.publish_on_commit(f"user:{actor.pk}", "read")
    return bool(count)


@transaction.atomic
def choose_kind(*, actor: User, kind: str, in_inbox: bool, by_mail: bool) -> NotificationChoice:
    """Where one kind of news reaches the actor; raises Invalid for a kind that is none."""
    if kind not in set(NoticeKind):
        raise Invalid(f"Choose from {', '.join(NoticeKind)}.", field="kind")
    if kind in ASKED_KINDS:
        words = "Only a job itself asks for this, in its notify, or you as you watch one."
        raise Invalid(words, field="kind")
    row, _ = NotificationChoice.objects.update_or_create(
        person=actor, kind=kind, defaults={"in_inbox": in_inbox, "by_mail": by_mail}
    )
    events.publish_on_commit(f"user:{actor.pk}", "read")
    return row
