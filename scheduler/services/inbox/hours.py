"""When the actor wants to be told: quiet hours, and mails that come together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, time
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import User
from scheduler.models import NewsHours, WaitingNews
from scheduler.services.errors import Invalid
from scheduler.states import Hours, MailRhythm, NoticeKind, chat_due_at, mail_due_at


def hours_of(people: Any) -> Mapping[int, Hours]:
    """What these people (ids, or a query for them) chose; who chose nothing is not there."""
    return {row.person_id: row.chosen for row in NewsHours.objects.filter(person__in=people)}


def whose_mail_waits(people: set[int], kind: NoticeKind, now: datetime) -> set[int]:
    """Those of these people whose mail of this kind goes into a later one; one query."""
    known = hours_of(people)
    return {one for one, hours in known.items() if mail_due_at(hours, kind, now) > now}


@transaction.atomic
def set_hours(
    *,
    actor: User,
    mail: str | None = None,
    digest_at: time | None = None,
    zone: str | None = None,
    quiet: tuple[time, time] | tuple[()] | None = None,
    urgent: Sequence[str] | None = None,
    now: datetime | None = None,
) -> NewsHours:
    """What is None stays; `quiet`: from and until, or () for never. What waits already waits as is
    chosen now. Raises Invalid.
    """
    made, _ = NewsHours.objects.get_or_create(person=actor)
    row = NewsHours.objects.select_for_update().get(pk=made.pk)
    if mail is not None:
        if mail not in set(MailRhythm):
            raise Invalid(f"Choose from {', '.join(MailRhythm)}.", field="mail")
        row.mail = mail
    if zone is not None:
        if zone not in known_zones():
            raise Invalid("Name a time zone such as Europe/Berlin or UTC.", field="zone")
        row.zone = zone
    if quiet is not None:
        row.quiet_from, row.quiet_until = quiet or (None, None)
        if quiet and quiet[0] == quiet[1]:
            raise Invalid(
                "Quiet hours end at another time than they begin; give no times for none.",
                field="quiet_until",
            )
    if urgent is not None:
        unknown = sorted(set(urgent) - set(NoticeKind))
        if unknown:
            raise Invalid(f"There is no news of kind {unknown[0]!r}.", field="urgent")
        row.urgent = sorted(set(urgent))
    row.digest_at = digest_at if digest_at is not None else row.digest_at
    row.save()
    _put_off_anew(row, now or timezone.now())
    return row


@cache
def known_zones() -> frozenset[str]:
    """Asked for by name in this set alone: a name from outside never becomes a path."""
    return frozenset(available_timezones())


def _put_off_anew(row: NewsHours, now: datetime) -> None:
    """What waits for the person goes by the new hours; a few statements, however much it is."""
    waiting = WaitingNews.objects.filter(taken_at=None)
    is_urgent = Q(notification__kind__in=row.urgent)
    for mine, due_at in (
        (waiting.filter(person=row.person, webhook=None), mail_due_at(row.chosen, "", now)),
        (waiting.filter(webhook__person=row.person), chat_due_at(row.chosen, "", now)),
    ):
        mine.filter(is_urgent).update(due_at=now)
        mine.exclude(is_urgent).update(due_at=due_at)
