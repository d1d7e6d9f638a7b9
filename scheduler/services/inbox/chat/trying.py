"""Sending a test to a channel by hand, and telling what was answered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from http.client import HTTPException

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler.conf import load_conf
from scheduler.models import Webhook
from scheduler.services.errors import Conflict
from scheduler.services.inbox.chat.addresses import address_of, problem_of_chat
from scheduler.services.inbox.chat.channels import check_may
from scheduler.services.inbox.chat.wording import Line, message
from scheduler.services.inbox.reaching import Answer, post
from scheduler.services.secrets.cipher import Unsealable

REST = timedelta(seconds=10)
HEADERS = {"Content-Type": "application/json", "User-Agent": "Trainyard"}
# What an answer means, where it is not that the message is there.
_MEANINGS = {
    **dict.fromkeys((400, 413), "it did not understand the message: is it the right kind of chat?"),
    **dict.fromkeys(
        (401, 403, 404, 405, 410),
        "it knows no such address, or no longer: make a new one there, and add that here",
    ),
    429: "it gets too many messages at the moment; try again later",
}


@dataclass(frozen=True, slots=True)
class Tried:
    """What came back: `status` None where nothing did; `said` is a sentence for a person."""

    is_there: bool
    status: int | None
    said: str


def try_channel(*, actor: User, channel: Webhook, now: datetime | None = None) -> Tried:
    """Send one message now, whatever waits, is paused or quiet. Call it outside of a transaction:
    it takes up to ten seconds. Raises Forbidden, and Conflict within ten seconds of the last."""
    check_may(actor, channel.team)
    now = now or timezone.now()
    with transaction.atomic():
        rested = Webhook.objects.filter(Q(tried_at=None) | Q(tried_at__lte=now - REST))
        if not rested.filter(pk=channel.pk).update(tried_at=now):
            raise Conflict(f"A test was sent a moment ago; wait {REST.seconds} seconds.")
        record(actor, "channel.try", channel, after={"host": channel.host}, now=now)
    home = load_conf().public_url
    told = "the team's" if channel.team_id else "your"
    line = Line(
        "Trainyard can write here", f"A test; {told} news come here.", f"{home}/settings/channels/"
    )
    body = message(channel.dialect, [line], inbox=f"{home}/notifications/")
    try:
        status = post_to(channel, body.encode()).status
    except (OSError, HTTPException, Unsealable, ValueError) as error:
        return Tried(False, None, f"{channel.host} gave no answer: {trouble_of(error)}.")
    if 200 <= status < 300:
        return Tried(True, status, f"{channel.host} has taken the message (it answered {status}).")
    means = _MEANINGS.get(status, "it did not take the message")
    return Tried(False, status, f"{channel.host} answered {status}: {means}.")


def post_to(channel: Webhook, body: bytes) -> Answer:
    """Raises OSError, HTTPException, Unsealable, ValueError."""
    url = address_of(channel)
    if problem := problem_of_chat(url):
        raise OSError(problem)
    return post(url, body, HEADERS)


def trouble_of(error: Exception) -> str:
    """What went wrong, in words that say nothing of the address but its host."""
    if isinstance(error, Unsealable):
        return "its address was sealed with another key; remove it and add it anew"
    if isinstance(error, OSError):
        return (str(error) or type(error).__name__).rstrip(".")[:200]
    return type(error).__name__
