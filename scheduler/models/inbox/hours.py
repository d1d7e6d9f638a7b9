"""When people want to be told, and what waits until then."""

from __future__ import annotations

from datetime import time

from django.conf import settings
from django.db import models

from scheduler.models.inbox.notifications import Notification
from scheduler.models.inbox.webhooks import Webhook
from scheduler.states import RHYTHM_WORDS, Hours, MailRhythm

_RHYTHMS = [(str(one), words) for one, words in RHYTHM_WORDS.items()]


class NewsHours(models.Model):
    """One person's choice; without a row it is never quiet and each mail comes at once."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    mail = models.CharField(max_length=8, choices=_RHYTHMS, default=MailRhythm.AT_ONCE.value)
    digest_at = models.TimeField(default=time(8))
    zone = models.CharField(max_length=64, default="UTC")
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    urgent = models.JSONField(default=list, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(quiet_from=None, quiet_until=None)
                | models.Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="quiet_hours_have_both_ends",
            )
        ]

    @property
    def chosen(self) -> Hours:
        """The same as a value."""
        return Hours(
            mail=MailRhythm(self.mail),
            digest_at=self.digest_at,
            zone=self.zone,
            quiet_from=self.quiet_from,
            quiet_until=self.quiet_until,
            urgent=frozenset(self.urgent),
        )


class WaitingNews(models.Model):
    """A piece of news that goes out with others: into a mail to `person`, or to a chat (`webhook`).

    It waits until `due_at`; `taken_at`: it is on its way. `key` is the notification's, so that a
    chat is told once what several people were told.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, related_name="+")
    notification = models.ForeignKey(Notification, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=128)
    due_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "key"], name="waiting_news_once_per_chat"),
            models.UniqueConstraint(
                fields=["person", "key"],
                condition=models.Q(webhook=None),
                name="waiting_news_once_per_mail",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=models.Q(taken_at__isnull=True),
                name="waiting_news_due",
            )
        ]
