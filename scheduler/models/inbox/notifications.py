"""Notifications: written with what they tell of, in the same transaction, once."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.states import NOTICE_RULES, NoticeKind

_KINDS = [(str(kind), rule.words) for kind, rule in NOTICE_RULES.items()]


class Notification(models.Model):
    """One thing told to one person; `key` makes it the only one, however often it is told.

    `subject` (`job:12`) groups what is about the same thing, `path` is its page. The row is its
    mail's outbox, too: `mailed_at` says when it was looked at whether a mail is wanted. `asked`:
    the job it is about asks for it (True: by mail and in the inbox whatever was chosen for its
    kind) or wants it kept quiet (False: for programs and the team's chats alone); None: as chosen.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=20, choices=_KINDS)
    subject = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    text = models.CharField(max_length=400, blank=True)
    path = models.CharField(max_length=200)
    key = models.CharField(max_length=128)
    at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)
    mailed_at = models.DateTimeField(null=True, blank=True)
    asked = models.BooleanField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["person", "key"], name="notification_told_once")
        ]
        indexes = [
            models.Index(fields=["person", "-id"], name="notification_inbox"),
            models.Index(
                fields=["person"],
                condition=models.Q(read_at__isnull=True),
                name="notification_unread",
            ),
            models.Index(
                fields=["id"], condition=models.Q(mailed_at__isnull=True), name="notification_mail"
            ),
        ]

    @property
    def glyph(self) -> str:
        """The icon of its kind."""
        return NOTICE_RULES[NoticeKind(self.kind)].glyph


class NotificationChoice(models.Model):
    """Where one kind of news reaches one person; without a row the kind's own rule holds."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20, choices=_KINDS)
    in_inbox = models.BooleanField(default=True)
    by_mail = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "kind"], name="notification_choice_once")
        ]


class NotificationMute(models.Model):
    """A person wants to hear no more of one thing."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    subject = models.CharField(max_length=40)
    title = models.CharField(max_length=200)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "subject"], name="notification_mute_once")
        ]
