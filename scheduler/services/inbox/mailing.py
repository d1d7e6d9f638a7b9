"""Notifications become mails for those who want them so, or wait for the next mail; old ones go."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from accounts.models import User, UserKind
from scheduler.conf import load_conf
from scheduler.models import (
    Notification,
    NotificationChoice,
    NotificationMute,
    OutboundMail,
    WaitingNews,
)
from scheduler.selectors.inbox.sight import still_seen
from scheduler.services.inbox.hours import hours_of
from scheduler.states import NOTICE_RULES, Hours, NoticeKind, mail_due_at

BATCH = 500
_PRUNED_AT_ONCE = 5_000
# So long one look goes on; what is left then waits for the next.
_AT_MOST_S = 20.0
# What waited longer, as nobody wrote mails, is asked about again: its reader may have left.
_SOON = timedelta(minutes=5)
# What was read is kept for a month, what nobody read for a quarter; webhooks take theirs up first.
KEEP_READ = timedelta(days=30)
KEEP_UNREAD = timedelta(days=90)
KEEP_TAKEN_UP = timedelta(hours=1)


def wants_mail(people: set[int], kind: NoticeKind, subject: str) -> set[int]:
    """Those of these people who get a mail of this kind about this; two queries."""
    rows = NotificationChoice.objects.filter(person__in=people, kind=kind)
    chosen = dict(rows.values_list("person_id", "by_mail"))
    muted = NotificationMute.objects.filter(person__in=people, subject=subject)
    hearing = people - set(muted.values_list("person_id", flat=True))
    return {one for one in hearing if chosen.get(one, NOTICE_RULES[kind].by_mail)}


def write_mails(*, now: datetime) -> int:
    """A mail for each notification not looked at yet whose person wants one; returns how many. What
    waits by the person's hours goes into a later mail (`digesting.py`).

    Two tasks at once write each mail once: its key is the notification's.
    """
    written, until = 0, time.monotonic() + _AT_MOST_S
    while (found := _write_some(now)) is not None:
        written += found
        if time.monotonic() > until:
            break
    return written


@transaction.atomic
def _write_some(now: datetime) -> int | None:
    """The mails of the next BATCH notifications; None without any."""
    rows = list(Notification.objects.filter(mailed_at__isnull=True).order_by("id")[:BATCH])
    if not rows:
        return None
    people = {row.person_id for row in rows}
    choices = {
        (one.person_id, one.kind): one.by_mail
        for one in NotificationChoice.objects.filter(person__in=people)
    }
    muted = set(
        NotificationMute.objects.filter(person__in=people).values_list("person_id", "subject")
    )
    reachable = User.objects.filter(pk__in=people, is_active=True, kind=UserKind.PERSON)
    reachable_ids = set(reachable.exclude(email="").values_list("pk", flat=True))
    hours = hours_of(people)
    late = [row for row in rows if row.at < now - _SOON]
    unseen = {row.pk for row in late} - {row.pk for row in still_seen(late)}
    mails, later = [], []
    for row in rows:
        is_wanted = row.asked
        if is_wanted is None:
            usual = NOTICE_RULES[NoticeKind(row.kind)].by_mail
            is_wanted = choices.get((row.person_id, row.kind), usual)
        if not is_wanted or row.person_id not in reachable_ids:
            continue
        if (row.person_id, row.subject) in muted or row.pk in unseen:
            continue
        due_at = mail_due_at(hours.get(row.person_id, Hours()), row.kind, now)
        if due_at > now:
            later.append(_later(row, due_at))
        else:
            mails.append(_mail_of(row, now))
    OutboundMail.objects.bulk_create(mails, ignore_conflicts=True)
    WaitingNews.objects.bulk_create(later, ignore_conflicts=True)
    Notification.objects.filter(pk__in=[row.pk for row in rows]).update(mailed_at=now)
    return len(mails)


def _later(row: Notification, due_at: datetime) -> WaitingNews:
    return WaitingNews(person_id=row.person_id, notification_id=row.pk, key=row.key, due_at=due_at)


def _mail_of(row: Notification, now: datetime) -> OutboundMail:
    home = load_conf().public_url
    text = f"{row.title}.\n{row.text}\n\n{home}{row.path}\n\n"
    asks = "The job itself asks for this mail (notify).\n" if row.asked else ""
    return OutboundMail(
        key=f"notification:{row.pk}",
        person_id=row.person_id,
        subject=row.title,
        text=f"{text}{asks}Which mails you get: {home}/settings/notifications/\n",
        created_at=now,
        not_before=now,
    )


def prune_notifications(*, now: datetime) -> int:
    """Delete what is old, and what was told to programs; returns how many rows."""
    old = Q(read_at__lt=now - KEEP_READ) | Q(at__lt=now - KEEP_UNREAD)
    programs = Q(person__kind=UserKind.SERVICE, at__lt=now - KEEP_TAKEN_UP)
    rows = Notification.objects.filter(old | programs, mailed_at__isnull=False).order_by("pk")
    count, until = 0, time.monotonic() + _AT_MOST_S
    while keys := list(rows.values_list("pk", flat=True)[:_PRUNED_AT_ONCE]):
        count += Notification.objects.filter(pk__in=keys).delete()[0]
        if time.monotonic() > until:
            break
    return count
