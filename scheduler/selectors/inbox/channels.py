"""Channels of chats, for those whose they are: one's own, and those of teams that one manages."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet

from accounts.errors import NotFound
from accounts.models import User
from accounts.permissions import team_ids_for
from scheduler.models import Delivery, Dialect, NewsHours, Webhook
from scheduler.states import NOTICE_RULES, Hours, NoticeKind

_MAX_PK = 2**63 - 1


def visible_channels(viewer: User) -> QuerySet[Webhook]:
    """The viewer's, then the teams', each with `sent`, `waiting` and `lost` messages and its
    `last_at`."""
    is_open = Q(deliveries__sent_at=None, deliveries__given_up_at=None)
    rows = _found(viewer).select_related("team").order_by("team__slug", "name", "pk")
    return rows.annotate(
        sent=Count("deliveries", filter=Q(deliveries__sent_at__isnull=False)),
        waiting=Count("deliveries", filter=is_open & Q(deliveries__isnull=False)),
        lost=Count("deliveries", filter=Q(deliveries__given_up_at__isnull=False)),
        last_at=Max("deliveries__sent_at"),
    )


def get_visible_channel(viewer: User, pk: int) -> Webhook:
    """The same of one. Raises NotFound."""
    found = visible_channels(viewer).filter(pk=min(pk, _MAX_PK)).first()
    if found is None:
        raise NotFound("There is no such channel for you.")
    return found


def messages_to(viewer: User, channel: Webhook, *, now: datetime) -> QuerySet[Delivery]:
    """What was sent there, or is to be, in any order."""
    mine = _found(viewer).filter(pk=channel.pk)
    return Delivery.objects.filter(webhook__in=mine.values("pk"), created_at__lte=now)


def words_of(kind: str) -> str:
    """What a message is about, by its kind."""
    known = kind in set(NoticeKind)
    return NOTICE_RULES[NoticeKind(kind)].words if known else "Several pieces of news"


def hours_for(viewer: User) -> Hours | None:
    """When the viewer wants to be told; None where they have not chosen."""
    row = NewsHours.objects.filter(person=viewer).first()
    return row.chosen if row else None


def _found(viewer: User) -> QuerySet[Webhook]:
    led = team_ids_for(viewer, "manage_team")
    whose = Q(person=viewer)
    whose |= Q(team__isnull=False) if led is None else Q(team__in=led)
    return Webhook.objects.exclude(dialect=Dialect.SIGNED).filter(whose)
