"""Setting up webhooks; for administrators. Nobody reads a secret again."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.services.audit import record
from scheduler.models import Delivery, Dialect, Webhook
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.inbox.reaching import problem_of
from scheduler.services.inbox.taking_up import since_now, take_up
from scheduler.services.secrets.cipher import seal
from scheduler.states import NoticeKind

MOST = 20


@transaction.atomic
def add_webhook(
    *, actor: User, url: str, kinds: Sequence[str] = (), now: datetime | None = None
) -> tuple[Webhook, str]:
    """The row, and the secret that is shown this once. Raises Forbidden, Invalid, Conflict.

    What is told from now on is sent; nothing of before.
    """
    _check(actor)
    now = now or timezone.now()
    url = url.strip()
    if problem := problem_of(url):
        raise Invalid(problem, field="url")
    _check_kinds(kinds)
    is_told = Conflict("This address is told already.", field="url")
    if _signed().filter(url=url).exists():
        raise is_told
    if _signed().count() >= MOST:
        raise Conflict(f"There are {MOST} webhooks already; remove one first.")
    secret = secrets.token_urlsafe(32)
    row = Webhook(
        url=url,
        kinds=sorted(set(kinds)),
        sealed=seal(secret.encode(), place_of(url)),
        since=since_now(now),
        created_by=actor,
        created_at=now,
    )
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise is_told from None
    record(actor, "policy.add_webhook", row, after={"host": row.host, "kinds": row.kinds}, now=now)
    return row, secret


@transaction.atomic
def change_webhook(
    *,
    actor: User,
    webhook: Webhook,
    kinds: Sequence[str] | None = None,
    is_paused: bool | None = None,
    now: datetime | None = None,
) -> Webhook:
    """Other news from now on, a pause, or its end; None leaves it as it is. The address stays: its
    secret signs for no other. Raises Forbidden, Invalid.
    """
    _check(actor)
    row = Webhook.objects.select_for_update().get(pk=webhook.pk)
    if kinds is not None and sorted(set(kinds)) != row.kinds:
        _check_kinds(kinds)
        if row.paused_at is None:
            # What was told until now goes by the kinds of until now.
            take_up(row, now or timezone.now())
        row.since = since_now(now or timezone.now())
        before, row.kinds = row.kinds, sorted(set(kinds))
        row.save(update_fields=["kinds", "since"])
        was, then = {"kinds": before}, {"kinds": row.kinds}
        record(actor, "policy.change_webhook", row, before=was, after=then, now=now)
    if is_paused is None:
        return row
    set_pause = pause_webhook if is_paused else resume_webhook
    return set_pause(actor=actor, webhook=row, now=now)


@transaction.atomic
def pause_webhook(*, actor: User, webhook: Webhook, now: datetime | None = None) -> Webhook:
    """Send nothing for now; what waits stays, and what is told meanwhile is not sent later."""
    _check(actor)
    row = Webhook.objects.select_for_update().get(pk=webhook.pk)
    if row.paused_at is None:
        row.paused_at = now or timezone.now()
        row.save(update_fields=["paused_at"])
        record(actor, "policy.pause_webhook", row, now=now)
    return row


@transaction.atomic
def resume_webhook(*, actor: User, webhook: Webhook, now: datetime | None = None) -> Webhook:
    """Go on with what is told from now on, and with what waited before the pause; at once, whatever
    rest the address asked for before."""
    _check(actor)
    now = now or timezone.now()
    row = Webhook.objects.select_for_update().get(pk=webhook.pk)
    if row.paused_at is not None:
        row.paused_at, row.rests_until, row.since = None, None, since_now(now)
        row.save(update_fields=["paused_at", "rests_until", "since"])
        # A long pause is no reason to give them up.
        row.deliveries.filter(sent_at=None, given_up_at=None).update(not_before=now)
        record(actor, "policy.resume_webhook", row, now=now)
    return row


@transaction.atomic
def remove_webhook(*, actor: User, webhook: Webhook) -> None:
    """Forget it, its secret and its deliveries."""
    _check(actor)
    record(actor, "policy.remove_webhook", webhook, before={"host": webhook.host})
    Webhook.objects.filter(pk=webhook.pk).delete()


@transaction.atomic
def send_again(*, actor: User, delivery: Delivery, now: datetime | None = None) -> Delivery:
    """Let a delivery be tried anew, whatever became of it."""
    _check(actor)
    row = Delivery.objects.select_for_update().get(pk=delivery.pk)
    row.tries, row.sent_at, row.given_up_at = 0, None, None
    row.not_before = now or timezone.now()
    row.save(update_fields=["tries", "sent_at", "given_up_at", "not_before"])
    record(actor, "policy.send_again", row.webhook, after={"delivery": row.pk}, now=now)
    return row


def _signed() -> QuerySet[Webhook]:
    """Without the channels of people and teams."""
    return Webhook.objects.filter(dialect=Dialect.SIGNED)


def place_of(url: str) -> str:
    """Where a secret belongs; it signs for no other address."""
    return f"webhook:{url}"


def _check_kinds(kinds: Sequence[str]) -> None:
    unknown = sorted(set(kinds) - set(NoticeKind))
    if unknown:
        raise Invalid(f"There is no news of kind {unknown[0]!r}.", field="kinds")


def _check(actor: User) -> None:
    if not can(actor, "administer", None):
        raise Forbidden("Only administrators set up webhooks.")
