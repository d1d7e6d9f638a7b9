"""Sending the mails that wait: each once, later again when the server of mails is away."""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta

from django.core.mail import send_mail

from scheduler.models import OutboundMail

logger = logging.getLogger(__name__)

MOST_TRIES = 8
# A key is looked up as long as the same thing might be told again.
KEPT = timedelta(days=90)
_FIRST_PAUSE = timedelta(minutes=1)
_BATCH = 200
_PRUNED_AT_ONCE = 5_000
# So long one look goes on; what is left then waits for the next.
_AT_MOST_S = 20.0


def send_mails(*, now: datetime) -> int:
    """How many were sent. A mail is taken by writing down when it is tried next, so that two
    senders share out; no transaction is open meanwhile: SQLite has one writer.

    A crash between sending and noting it sends that one mail twice; nothing is lost.
    """
    waiting = OutboundMail.objects.filter(
        sent_at=None, given_up_at=None, not_before__lte=now
    ).order_by("id")
    sent, until = 0, time.monotonic() + _AT_MOST_S
    while rows := list(waiting.select_related("person")[:_BATCH]):
        for row in rows:
            sent += _send(row, now)
            if time.monotonic() > until:
                return sent
    return sent


def prune_mails(*, now: datetime) -> int:
    """Forget what was sent or given up long ago; returns how many."""
    old = OutboundMail.objects.filter(created_at__lt=now - KEPT)
    old = old.exclude(sent_at=None, given_up_at=None).order_by("pk")
    count, until = 0, time.monotonic() + _AT_MOST_S
    while keys := list(old.values_list("pk", flat=True)[:_PRUNED_AT_ONCE]):
        count += OutboundMail.objects.filter(pk__in=keys).delete()[0]
        if time.monotonic() > until:
            break
    return count


def _send(row: OutboundMail, now: datetime) -> bool:
    mine = OutboundMail.objects.filter(pk=row.pk)
    if not row.person.is_active or not row.person.email:
        mine.filter(sent_at=None).update(given_up_at=now)
        return False
    tries = row.tries + 1
    taken = mine.filter(tries=row.tries, sent_at=None, given_up_at=None, not_before__lte=now)
    if not taken.update(tries=tries, not_before=now + _FIRST_PAUSE * 2**tries):
        return False
    try:
        send_mail(f"Trainyard: {row.subject}", row.text, None, [row.person.email])
    except Exception as error:
        # Whatever is wrong with one, such as a subject of two lines, stops no other.
        logger.warning("mail %s was not sent: %s", row.pk, error)
        if tries >= MOST_TRIES:
            mine.update(given_up_at=now)
        return False
    mine.update(sent_at=now)
    return True
