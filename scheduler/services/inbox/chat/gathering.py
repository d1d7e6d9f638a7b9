"""What channels are told: taken up from what people were told, and put into one message a look.

A number of statements that does not grow with people or channels. What was taken is known by its
key, so that what is looked at twice is told once. What somebody may not see any more when it is
sent is left out of their own chats; a team's chat has what is its team's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduler.conf import load_conf
from scheduler.models import (
    Delivery,
    Dialect,
    Job,
    JobSet,
    Notification,
    NotificationMute,
    WaitingNews,
    Webhook,
)
from scheduler.selectors.inbox.sight import still_seen
from scheduler.services.inbox.chat.wording import Line, message
from scheduler.services.inbox.hours import hours_of
from scheduler.services.inbox.taking_up import OVERLAP
from scheduler.states import TEAM_KINDS, Hours, chat_due_at

_BATCH = 2_000


@dataclass(frozen=True, slots=True)
class _Told:
    """A notification as far as it is asked for here."""

    pk: int
    person: int
    kind: str
    subject: str
    key: str
    at: datetime
    asked: bool | None


def take_up_channels(*, now: datetime) -> None:
    """Let each channel have what its person, or somebody in its team, was told since the last
    look."""
    channels = list(_speaking().order_by("id"))
    if not channels:
        return
    rows = _rows(channels, now)
    people = _speaking().filter(person__isnull=False).values("person")
    hours = hours_of(people)
    since = min((row.at for row in rows), default=now) - OVERLAP
    kept = WaitingNews.objects.filter(webhook__isnull=False, notification__at__gte=since)
    known = set(kept.values_list("webhook_id", "key"))
    fresh: dict[tuple[int, str], WaitingNews] = {}
    for row, channel in _pairs(rows, channels, people):
        place = channel.pk, row.key
        if place not in known:
            own = Hours() if channel.team_id else hours.get(row.person, Hours())
            due_at = chat_due_at(own, row.kind, now)
            fresh.setdefault(
                place,
                WaitingNews(webhook=channel, notification_id=row.pk, key=row.key, due_at=due_at),
            )
    WaitingNews.objects.bulk_create(fresh.values(), batch_size=500, ignore_conflicts=True)
    # Never back: one that was resumed or changed meanwhile begins later.
    _speaking().filter(since__lt=now).update(since=now)


def _pairs(
    rows: Sequence[_Told], channels: Sequence[Webhook], people: Any
) -> Iterator[tuple[_Told, Webhook]]:
    """Each piece of news with each channel that gets it; what a person muted is not for theirs."""
    of_person: dict[int | None, list[Webhook]] = {}
    of_team: dict[int | None, list[Webhook]] = {}
    for channel in channels:
        owners = of_team if channel.team_id else of_person
        owners.setdefault(channel.team_id or channel.person_id, []).append(channel)
    teams = _teams_of(rows) if of_team else {}
    muted = _muted_by(people)
    for row in rows:
        is_quiet = row.asked is False or (row.person, row.subject) in muted
        mine = [] if is_quiet else of_person.get(row.person, [])
        team = teams.get(row.subject) if row.kind in TEAM_KINDS else None
        for channel in (*mine, *of_team.get(team, [])):
            if _is_for(channel, row):
                yield row, channel


def write_messages(*, now: datetime) -> int:
    """A delivery for each channel for which something is due, with all of it; returns how many."""
    written = 0
    while (found := _write_some(now)) is not None:
        written += found
    return written


def _speaking() -> QuerySet[Webhook]:
    is_somebodys = Q(person__is_active=True) | Q(team__isnull=False)
    return Webhook.objects.exclude(dialect=Dialect.SIGNED).filter(is_somebodys, paused_at=None)


def _rows(channels: Sequence[Webhook], now: datetime) -> list[_Told]:
    begin = min(one.since for one in channels) - OVERLAP
    # Found from the newest on; before it nothing of interest was written, by what `OVERLAP` says.
    old = Notification.objects.filter(at__lt=begin - OVERLAP).order_by("-id")
    floor = old.values_list("pk", flat=True).first() or 0
    who = Q(person__in=_speaking().filter(person__isnull=False).values("person"))
    if any(one.team_id for one in channels):
        who |= Q(kind__in=TEAM_KINDS)
    rows = Notification.objects.filter(who, pk__gt=floor, at__gte=begin, at__lte=now)
    fields = ("pk", "person_id", "kind", "subject", "key", "at", "asked")
    return [_Told(*row) for row in rows.order_by("id").values_list(*fields)]


def _muted_by(people: Any) -> set[tuple[int | None, str]]:
    mutes = NotificationMute.objects.filter(person__in=people)
    return set(mutes.values_list("person_id", "subject"))


def _is_for(channel: Webhook, row: _Told) -> bool:
    is_new = row.at >= channel.since - OVERLAP
    return is_new and (not channel.kinds or row.kind in channel.kinds)


def _teams_of(rows: Sequence[_Told]) -> dict[str, int]:
    """The team of each job or array that something is about; everybody in it may read that."""
    found: dict[str, int] = {}
    for word, model in (("job", Job), ("set", JobSet)):
        begin = f"{word}:"
        ids = {
            int(row.subject.removeprefix(begin))
            for row in rows
            if row.kind in TEAM_KINDS and row.subject.startswith(begin)
        }
        for part in _parts(sorted(ids)):
            listed = model._default_manager.filter(pk__in=part)
            found |= {f"{begin}{pk}": at for pk, at in listed.values_list("pk", "project__team")}
    return found


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    yield from (ids[at : at + _BATCH] for at in range(0, len(ids), _BATCH))


@transaction.atomic
def _write_some(now: datetime) -> int | None:
    """The messages of the channels whose news are first; None without any."""
    due = WaitingNews.objects.filter(
        webhook__in=_speaking().values("pk"), taken_at=None, due_at__lte=now
    )
    channels = set(due.order_by("id").values_list("webhook_id", flat=True)[:_BATCH])
    if not channels:
        return None
    rows = due.filter(webhook__in=channels).select_for_update(of=("self",))
    muted = _muted_by(_speaking().filter(pk__in=channels).values("person"))
    found: dict[Webhook, list[WaitingNews]] = {}
    taken = []
    for row in rows.select_related("notification", "webhook").order_by("id"):
        taken.append(row.pk)
        channel, subject = row.webhook, row.notification.subject
        if channel is not None and (channel.person_id, subject) not in muted:
            found.setdefault(channel, []).append(row)
    found = _still_seen(found)
    deliveries = [
        Delivery(
            webhook=channel,
            key=f"news:{waited[-1].pk}",
            kind=waited[0].notification.kind if len(waited) == 1 else Delivery.SEVERAL,
            body=_body(channel, [row.notification for row in waited]),
            created_at=now,
            not_before=now,
        )
        for channel, waited in found.items()
    ]
    Delivery.objects.bulk_create(deliveries, batch_size=500, ignore_conflicts=True)
    for part in _parts(taken):
        WaitingNews.objects.filter(pk__in=part).update(taken_at=now)
    return len(deliveries)


def _still_seen(
    found: Mapping[Webhook, Sequence[WaitingNews]],
) -> dict[Webhook, list[WaitingNews]]:
    own = [row.notification for at, rows in found.items() if at.person_id for row in rows]
    seen = {one.pk for one in still_seen(own)}
    kept = {
        at: [row for row in rows if at.team_id or row.notification.pk in seen]
        for at, rows in found.items()
    }
    return {at: rows for at, rows in kept.items() if rows}


def _body(channel: Webhook, told: Sequence[Notification]) -> str:
    home = load_conf().public_url
    lines = [Line(one.title, one.text, f"{home}{one.path}") for one in told]
    return message(channel.dialect, lines, inbox=f"{home}/notifications/")
