"""Webhooks: addresses of other programs that are told what people are told, signed; and channels of
chats, which a person or a team has for itself."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.db import models


class Dialect(models.TextChoices):
    """How an address is spoken to."""

    SIGNED = "signed", "signed JSON"
    SLACK = "slack", "Slack, Mattermost, Rocket.Chat"
    TEAMS = "teams", "Microsoft Teams"


class Webhook(models.Model):
    """An address, the kinds of news it gets (none: all it may) and the sealed secret that signs
    them.

    A chat's is one person's or one team's, and its whole address is what is sealed: who has it
    writes there. `url` then says only where it leads. `since` is how far the news were looked
    through (ahead of now where nothing of before is told); `paused_at`: nothing is sent meanwhile;
    `tried_at`: the last test; `rests_until`: it has said that it is told too much.
    """

    url = models.URLField(max_length=500)
    dialect = models.CharField(
        max_length=8, choices=Dialect, default=Dialect.SIGNED, db_default=Dialect.SIGNED
    )
    name = models.CharField(max_length=60, blank=True, default="", db_default="")
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, null=True, related_name="+")
    kinds = models.JSONField(default=list, blank=True)
    sealed = models.BinaryField()
    since = models.DateTimeField()
    paused_at = models.DateTimeField(null=True, blank=True)
    tried_at = models.DateTimeField(null=True, blank=True)
    rests_until = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["url", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["url"], condition=models.Q(dialect="signed"), name="webhook_told_once"
            ),
            models.CheckConstraint(
                condition=models.Q(dialect="signed", person=None, team=None)
                | models.Q(~models.Q(dialect="signed"), person__isnull=False, team=None)
                | models.Q(~models.Q(dialect="signed"), person=None, team__isnull=False),
                name="webhook_of_a_chat_is_somebodys",
            ),
        ]

    def __str__(self) -> str:
        return self.host

    @property
    def host(self) -> str:
        """Where it leads; the rest of an address may be as good as a password."""
        return urlsplit(self.url).netloc


class Delivery(models.Model):
    """One piece of news on its way to one address; `key` makes it the only one. To a chat several
    may go in one message, of kind SEVERAL.

    `tries` were made and the last was answered with `status`, or failed with `trouble`.
    """

    SEVERAL = "several"

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    key = models.CharField(max_length=128)
    kind = models.CharField(max_length=20)
    body = models.TextField()
    created_at = models.DateTimeField()
    not_before = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    trouble = models.CharField(max_length=200, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    given_up_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "key"], name="delivery_once_per_webhook")
        ]
        indexes = [
            models.Index(
                fields=["not_before"],
                condition=models.Q(sent_at__isnull=True, given_up_at__isnull=True),
                name="delivery_waiting",
            )
        ]
