"""Webhooks and what became of their deliveries; for administrators, who alone find them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet

from accounts.errors import NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.models import Delivery, Dialect, Webhook

_SHOWN = 50
_MAX_PK = 2**63 - 1


def visible_webhooks(viewer: User) -> QuerySet[Webhook]:
    """All, each with `sent`, `waiting` and `lost` deliveries and its `last_at`. Raises NotFound."""
    _require(viewer)
    is_open = Q(deliveries__sent_at=None, deliveries__given_up_at=None)
    return _signed().annotate(
        sent=Count("deliveries", filter=Q(deliveries__sent_at__isnull=False)),
        waiting=Count("deliveries", filter=is_open & Q(deliveries__isnull=False)),
        lost=Count("deliveries", filter=Q(deliveries__given_up_at__isnull=False)),
        last_at=Max("deliveries__sent_at"),
    )


def get_visible_webhook(viewer: User, pk: int) -> Webhook:
    """Raises NotFound."""
    _require(viewer)
    found = _signed().filter(pk=min(pk, _MAX_PK)).first()
    if found is None:
        raise NotFound("There is no such webhook for you.")
    return found


def get_visible_delivery(viewer: User, pk: int) -> Delivery:
    """Raises NotFound."""
    _require(viewer)
    found = _of_signed().filter(pk=min(pk, _MAX_PK)).first()
    if found is None:
        raise NotFound("There is no such delivery for you.")
    return found


def latest_deliveries(
    viewer: User,
    *,
    now: datetime,
    webhook: Webhook | None = None,
    before: int | None = None,
    limit: int = _SHOWN,
) -> Sequence[Delivery]:
    """The latest first, of all webhooks or of one, `before` an id; one query. Raises NotFound."""
    rows = deliveries_of(viewer, now=now, webhook=webhook)
    rows = rows.filter(pk__lt=before) if before else rows
    return list(rows.order_by("-id")[:limit])


def deliveries_of(
    viewer: User, *, now: datetime, webhook: Webhook | None = None
) -> QuerySet[Delivery]:
    """Of all webhooks or of one. Raises NotFound."""
    _require(viewer)
    rows = _of_signed().filter(created_at__lte=now)
    return rows if webhook is None else rows.filter(webhook=webhook)


def _signed() -> QuerySet[Webhook]:
    """Without the channels of people and teams, which are nobody else's."""
    return Webhook.objects.filter(dialect=Dialect.SIGNED)


def _of_signed() -> QuerySet[Delivery]:
    rows = Delivery.objects.filter(webhook__dialect=Dialect.SIGNED)
    return rows.select_related("webhook")


def _require(viewer: User) -> None:
    if not can(viewer, "administer", None):
        raise NotFound()
