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
    """Where one kind of news reaches a person."""

    kind: NoticeKind
    rule: NoticeRule
    in_inbox: bool
    by_mail: bool


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
    """Every kind that one chooses, with where it reaches the viewer; one query."""
    rows = {row.kind: row for row in NotificationChoice.objects.filter(person=viewer)}
    return [
        Choice(
            kind,
            rule,
            rows[kind].in_inbox if kind in rows else True,
            rows[kind].by_mail if kind in rows else rule.by_mail,
        )
        for kind, rule in NOTICE_RULES.items()
        if kind not in ASKED_KINDS
    ]


def muted_by(viewer: User) -> QuerySet[NotificationMute]:
    """The things the viewer muted, the latest first."""
    return NotificationMute.objects.filter(person=viewer).order_by("-at", "-pk")
