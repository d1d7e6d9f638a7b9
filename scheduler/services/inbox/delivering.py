"""Carrying news to webhooks: looked up and sent by a task, so that telling people costs no more.

Each delivery is sent until it is answered with 2xx, later and later, and then given up. A crash
between sending and noting it sends that one twice: receivers tell by `X-Trainyard-Delivery`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from enum import Enum
from http.client import HTTPException

from scheduler.conf import load_conf
from scheduler.models import Delivery, Notification, Webhook
from scheduler.services.inbox.reaching import post
from scheduler.services.inbox.webhooks import place_of
from scheduler.services.secrets.cipher import Unsealable, unseal

MOST_TRIES = 8
KEPT = timedelta(days=30)
_FIRST_PAUSE = timedelta(minutes=1)
# News are written in transactions that end in another order than they began: looked at anew for so
# long. None takes longer, and what was taken before is not taken again.
_OVERLAP = timedelta(minutes=10)
_BATCH = 200
# One address that hangs must not keep a worker for long.
_AT_MOST_S = 20.0
# After so many refusals in a row the others to that address wait for the next look.
_REFUSALS = 3


class _Became(Enum):
    """What became of one delivery; a refusal is an answer, and another sender may be at it."""

    SENT, REFUSED, UNHEARD, ANOTHERS = range(4)


def deliver(*, now: datetime) -> int:
    """Take up what was told since, then send what is due; how many were sent."""
    hooks = list(Webhook.objects.filter(paused_at=None))
    for hook in hooks:
        _take_up(hook, now)
    due = Delivery.objects.filter(
        sent_at=None, given_up_at=None, not_before__lte=now, webhook__paused_at=None
    ).order_by("id")
    sent, until = 0, time.monotonic() + _AT_MOST_S
    refusals = Counter[int]()
    for pk, address in list(due.values_list("pk", "webhook_id")[:_BATCH]):
        if refusals[address] >= _REFUSALS or time.monotonic() > until:
            continue
        became = _send(pk, now)
        if became is _Became.SENT:
            sent += 1
            refusals[address] = 0
        elif became is _Became.REFUSED:
            refusals[address] += 1
        elif became is _Became.UNHEARD:
            # It may take its time to say nothing: the others wait for the next look.
            refusals[address] = _REFUSALS
    return sent


def prune_deliveries(*, now: datetime) -> int:
    """Forget what was sent or given up long ago."""
    old = Delivery.objects.filter(created_at__lt=now - KEPT).exclude(sent_at=None, given_up_at=None)
    return old.delete()[0]


def _take_up(hook: Webhook, now: datetime) -> None:
    """A delivery for each thing told, however many people were told it."""
    begin = max(hook.since - _OVERLAP, hook.created_at)
    rows = Notification.objects.filter(at__gte=begin, at__lte=now).order_by("id")
    if hook.kinds:
        rows = rows.filter(kind__in=hook.kinds)
    known = set(
        Delivery.objects.filter(webhook=hook, created_at__gte=begin - _OVERLAP).values_list(
            "key", flat=True
        )
    )
    fresh: dict[str, Notification] = {}
    for row in rows.iterator(500):
        if row.key not in known:
            fresh.setdefault(row.key, row)
    Delivery.objects.bulk_create(
        (
            Delivery(
                webhook=hook,
                key=row.key,
                kind=row.kind,
                body=_body(row),
                created_at=now,
                not_before=now,
            )
            for row in fresh.values()
        ),
        batch_size=500,
        ignore_conflicts=True,
    )
    Webhook.objects.filter(pk=hook.pk, since__lt=now).update(since=now)


def _body(row: Notification) -> str:
    """What is sent: no person's name and no address, only what it is about and where it stands."""
    return json.dumps(
        {
            "kind": row.kind,
            "subject": row.subject,
            "title": row.title,
            "text": row.text,
            "url": f"{load_conf().public_url}{row.path}",
            "at": row.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        ensure_ascii=False,
        sort_keys=True,
    )


def _send(pk: int, now: datetime) -> _Became:
    """Taken by writing down when it is tried next, so that of two senders one sends it.

    No transaction is open while an address takes its time: SQLite has one writer.
    """
    row = Delivery.objects.select_related("webhook").filter(pk=pk).first()
    if row is None:
        return _Became.ANOTHERS
    mine = Delivery.objects.filter(
        pk=pk, tries=row.tries, not_before__lte=now, sent_at=None, given_up_at=None
    )
    tries = row.tries + 1
    if not mine.update(tries=tries, not_before=now + _FIRST_PAUSE * 2**tries):
        return _Became.ANOTHERS
    status, trouble = None, ""
    try:
        status = _post(row, int(now.timestamp()))
    except (OSError, HTTPException, Unsealable, ValueError) as error:
        trouble = (str(error) or type(error).__name__)[:200]
    is_sent = status is not None and 200 <= status < 300
    Delivery.objects.filter(pk=pk, tries=tries).update(
        status=status,
        trouble=trouble,
        sent_at=now if is_sent else None,
        given_up_at=now if not is_sent and tries >= MOST_TRIES else None,
    )
    if is_sent:
        return _Became.SENT
    return _Became.UNHEARD if status is None else _Became.REFUSED


def _post(row: Delivery, at_s: int) -> int:
    """The status of the answer; nothing of it is read, and no redirect is followed."""
    url, body = row.webhook.url, row.body.encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Trainyard",
        "X-Trainyard-Delivery": str(row.pk),
        "X-Trainyard-Event": row.kind,
        "X-Trainyard-Signature": signature(unseal(row.webhook.sealed, place_of(url)), at_s, body),
    }
    return post(url, body, headers)


def signature(secret: bytes, at_s: int, body: bytes) -> str:
    """`t=<second>,v1=<hex>`: HMAC-SHA-256 (RFC 2104) over the second, a dot and the body."""
    told = hmac.new(secret, f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={told}"
