"""Webhooks: addresses of other programs that are told what people are told, signed."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.db import models


class Webhook(models.Model):
    """An address, the kinds of news it gets (none: all) and the sealed secret that signs them.

    `since` is how far the news were looked through (ahead of now where nothing of before is told);
    `paused_at`: nothing is sent meanwhile.
    """

    url = models.URLField(max_length=500, unique=True)
    kinds = models.JSONField(default=list, blank=True)
    sealed = models.BinaryField()
    since = models.DateTimeField()
    paused_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["url"]

    def __str__(self) -> str:
        return self.host

    @property
    def host(self) -> str:
        """Where it leads; the rest of an address may be as good as a password."""
        return urlsplit(self.url).netloc


class Delivery(models.Model):
    """One piece of news on its way to one address; `key` makes it the only one.

    `tries` were made and the last was answered with `status`, or failed with `trouble`.
    """

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
