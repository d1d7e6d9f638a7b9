"""Carrying news to webhooks and chats: looked up and sent by a task, so that telling people costs
no more.

Each delivery is sent until it is answered with 2xx, later and later, and then given up. A crash
between sending and noting it sends that one twice: receivers tell by `X-Trainyard-Delivery`.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from http.client import HTTPException

from django.db.models import Max, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from scheduler.models import Delivery, Dialect, Webhook
from scheduler.services.inbox.chat.gathering import take_up_channels, write_messages
from scheduler.services.inbox.chat.trying import post_to, trouble_of
from scheduler.services.inbox.reaching import Answer, post
from scheduler.services.inbox.taking_up import take_up
from scheduler.services.inbox.webhooks import place_of
from scheduler.services.secrets.cipher import Unsealable, unseal

MOST_TRIES = 8
KEPT = timedelta(days=30)
_FIRST_PAUSE = timedelta(minutes=1)
# Too many: all that waits for that address waits until it said, but no longer than this. The one it
# was said to waits longer each time.
_TOO_MANY = 429
MOST_REST = timedelta(hours=1)
# What was due for so long is no news any more: an address that is away for days would be sent its
# old ones one by one for weeks.
DUE_FOR = timedelta(days=3)
# Of each address in one look.
_BATCH = 200
# One address that hangs must not keep a worker for long.
_AT_MOST_S = 20.0
# After so many refusals in a row the others to that address wait for the next look.
_REFUSALS = 3


class _Became(Enum):
    """What became of one delivery; a refusal is an answer, and another sender may be at it."""

    SENT, REFUSED, UNHEARD, ANOTHERS, RESTS = range(5)


def deliver(*, now: datetime) -> int:
    """Take up what was told since, then send what is due; how many were sent."""
    signed = Q(webhook__dialect=Dialect.SIGNED)
    for hook in Webhook.objects.filter(dialect=Dialect.SIGNED, paused_at=None):
        take_up(hook, now)
    take_up_channels(now=now)
    write_messages(now=now)
    due = Delivery.objects.filter(
        sent_at=None, given_up_at=None, not_before__lte=now, webhook__paused_at=None
    )
    due.filter(not_before__lt=now - DUE_FOR).update(given_up_at=now)
    due = due.exclude(webhook__rests_until__gt=now)
    chats = due.exclude(signed).exclude(webhook__person__is_active=False)
    # Chats are anybody's: they have time of their own, so that they cost the others none.
    return _carry(due.filter(signed), now) + _carry(chats, now)


def _carry(due: QuerySet[Delivery], now: datetime) -> int:
    sent, until = 0, time.monotonic() + _AT_MOST_S
    refusals = Counter[int]()
    for pk, address in in_turn(due):
        if refusals[address] >= _REFUSALS or time.monotonic() > until:
            continue
        became = _send(pk, now)
        if became is _Became.SENT:
            sent += 1
            refusals[address] = 0
        elif became is _Became.REFUSED:
            refusals[address] += 1
        elif became in (_Became.UNHEARD, _Became.RESTS):
            # It may take its time to say nothing, or asked for some: the others wait.
            refusals[address] = _REFUSALS
    return sent


def in_turn(due: QuerySet[Delivery]) -> Sequence[tuple[int, int]]:
    """Deliveries and their addresses, one of each address after the other, the oldest of each
    first; addresses that have to be tried again come last, for they may use up the time."""
    waits = Q(deliveries__sent_at=None, deliveries__given_up_at=None)
    hooks = Webhook.objects.filter(paused_at=None).annotate(
        tries=Max("deliveries__tries", filter=waits, default=0)
    )
    tries = dict(hooks.values_list("pk", "tries"))
    turn = Window(RowNumber(), partition_by="webhook_id", order_by="id")
    rows = due.order_by().annotate(turn=turn).filter(turn__lte=_BATCH)
    # One made or resumed meanwhile is known from the next look on.
    found = [one for one in rows.values_list("turn", "webhook_id", "pk") if one[1] in tries]
    found.sort(key=lambda one: (one[0], tries[one[1]], *one))
    return [(pk, address) for _turn, address, pk in found]


def prune_deliveries(*, now: datetime) -> int:
    """Forget what is old, sent or not."""
    return Delivery.objects.filter(created_at__lt=now - KEPT).delete()[0]


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
    # What it said last counts no more: whoever dies in this try has not been told to rest by it.
    if not mine.update(tries=tries, status=None, not_before=_next_try(None, tries, now)):
        return _Became.ANOTHERS
    answer, trouble, became = None, "", _Became.UNHEARD
    try:
        answer = _post(row, int(now.timestamp()))
        became = _Became.SENT if 200 <= answer.status < 300 else _Became.REFUSED
        if answer.status == _TOO_MANY:
            became = _Became.RESTS
    except (OSError, HTTPException, Unsealable, ValueError) as error:
        trouble = (str(error) or type(error).__name__)[:200]
        if row.webhook.dialect != Dialect.SIGNED:
            trouble = trouble_of(error)
        if isinstance(error, ConnectionResetError | BrokenPipeError | HTTPException):
            # It is there and hung up without letting us wait: as quick as an answer.
            became = _Became.REFUSED
    is_sent = became is _Became.SENT
    Delivery.objects.filter(pk=pk, tries=tries).update(
        status=answer and answer.status,
        not_before=_next_try(answer, tries, now),
        trouble=trouble,
        sent_at=now if is_sent else None,
        given_up_at=now if not is_sent and tries >= MOST_TRIES else None,
    )
    if became is _Became.RESTS:
        # As if it were said for the first time: others have not been tried as often.
        Webhook.objects.filter(pk=row.webhook_id).update(rests_until=_next_try(answer, 1, now))
    return became


def _next_try(answer: Answer | None, tries: int, now: datetime) -> datetime:
    """Later and later, or when the address says (RFC 9110, 10.2.3): seconds, or a date."""
    usual = _FIRST_PAUSE * 2**tries
    if answer is None or answer.status != _TOO_MANY:
        return now + usual
    said = answer.retry_after.strip()
    asked = usual
    if said.isascii() and said.isdecimal():
        asked = timedelta(seconds=int(said[:9]))
    else:
        with suppress(ValueError):
            asked = parsedate_to_datetime(said).replace(tzinfo=UTC) - now
    # It may say "in a second" each time: the tries are few.
    return now + min(max(asked, usual / 4), MOST_REST)


def _post(row: Delivery, at_s: int) -> Answer:
    """Nothing of an answer's body is read, and no redirect is followed."""
    url, body = row.webhook.url, row.body.encode()
    if row.webhook.dialect != Dialect.SIGNED:
        return post_to(row.webhook, body)
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
