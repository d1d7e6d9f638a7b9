"""A person's own notifications, without what they muted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.models import User
from scheduler.models import Notification, NotificationChoice, NotificationMute
from scheduler.states import ASKED_KINDS, NOTICE_RULES, NoticeKind, NoticeRule

# The bell says "99+" from here on; nobody reads a larger number.
MOST_COUNTED = 100


@dataclass(frozen=True, slots=True)
class Group:
    """What was told of one thing, the newest first; never empty."""

    subject: str
    rows: tuple[Notification, ...]

    @property
    def latest(self) -> Notification:
        return self.rows[0]

    @property
    def earlier(self) -> tuple[Notification, ...]:
        return self.rows[1:]

    @property
    def unread(self) -> int:
        return sum(row.read_at is None for row in self.rows)


@dataclass(frozen=True, slots=True)
class Choice:
    """Where one kind of news reaches a person. `is_open`: by their own choice; what a job itself
    asks for, or a watch, always comes to both."""

    kind: NoticeKind
    rule: NoticeRule
    in_inbox: bool
    by_mail: bool
    is_open: bool = True


def visible_notifications(viewer: User) -> QuerySet[Notification]:
    """The viewer's own; what they muted, a thing or a kind, is not there, nor what its job wants
    kept quiet. What a job asks for is there though its kind is not."""
    kinds = NotificationChoice.objects.filter(person=viewer, in_inbox=False, kind=OuterRef("kind"))
    things = NotificationMute.objects.filter(person=viewer, subject=OuterRef("subject"))
    told = Q(asked=True) | Q(asked=None) & ~Exists(kinds)
    return Notification.objects.filter(told, ~Exists(things), person=viewer)


def grouped(rows: Iterable[Notification]) -> list[Group]:
    """By what they are about, in the order of the newest of each."""
    found: dict[str, list[Notification]] = {}
    for row in rows:
        found.setdefault(row.subject, []).append(row)
    return [Group(subject, tuple(of_it)) for subject, of_it in found.items()]


def choices_of(viewer: User) -> list[Choice]:
    """Every kind of news, with where it reaches the viewer; one query."""
    rows = {row.kind: row for row in NotificationChoice.objects.filter(person=viewer)}

    def choice(kind: NoticeKind, rule: NoticeRule) -> Choice:
        if kind in ASKED_KINDS:
            return Choice(kind, rule, in_inbox=True, by_mail=True, is_open=False)
        if row := rows.get(kind):
            return Choice(kind, rule, row.in_inbox, row.by_mail)
        return Choice(kind, rule, in_inbox=True, by_mail=rule.by_mail)

    return [choice(kind, rule) for kind, rule in NOTICE_RULES.items()]


def muted_by(viewer: User) -> QuerySet[NotificationMute]:
    """The things the viewer muted, the latest first."""
    return NotificationMute.objects.filter(person=viewer).order_by("-at", "-pk")
