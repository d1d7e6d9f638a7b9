"""Sending the mails that wait: each once, later again when the server of mails is away."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.core.mail import send_mail
from django.db import connection, transaction

from scheduler.models import OutboundMail

logger = logging.getLogger(__name__)

MOST_TRIES = 8
_FIRST_PAUSE = timedelta(minutes=1)
_BATCH = 200


def send_mails(*, now: datetime) -> int:
    """How many were sent. A row is locked while its mail is on its way, so two senders share out.

    A crash between sending and noting it sends that one mail twice; nothing is lost.
    """
    waiting = OutboundMail.objects.filter(
        sent_at=None, given_up_at=None, not_before__lte=now
    ).order_by("id")
    return sum(_send(pk, now) for pk in list(waiting.values_list("pk", flat=True)[:_BATCH]))


def _send(pk: int, now: datetime) -> bool:
    with transaction.atomic():
        rows = OutboundMail.objects.filter(pk=pk, sent_at=None, given_up_at=None)
        skip = connection.features.has_select_for_update_skip_locked
        row = rows.select_for_update(of=("self",) if skip else (), skip_locked=skip).first()
        if row is None:
            return False
        if not row.person.is_active or not row.person.email:
            row.given_up_at = now
            row.save(update_fields=["given_up_at"])
            return False
        try:
            send_mail(f"Trainyard: {row.subject}", row.text, None, [row.person.email])
        except OSError as error:
            logger.warning("mail %s was not sent: %s", pk, error)
            row.tries += 1
            row.not_before = now + _FIRST_PAUSE * 2**row.tries
            row.given_up_at = now if row.tries >= MOST_TRIES else None
            row.save(update_fields=["tries", "not_before", "given_up_at"])
            return False
        row.tries, row.sent_at = row.tries + 1, now
        row.save(update_fields=["tries", "sent_at"])
        return True
