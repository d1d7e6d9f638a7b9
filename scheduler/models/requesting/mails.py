"""Mails that wait to be sent: written with what they tell of, sent by a task, once."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.requesting.requests import QuotaRequest


class OutboundMail(models.Model):
    """One mail to one person. `key` says what it is about, so that nothing is told twice.

    `tries` were made; a mail that failed is tried again later, until it is given up.
    """

    key = models.CharField(max_length=128, unique=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    subject = models.CharField(max_length=200)
    text = models.TextField()
    created_at = models.DateTimeField()
    not_before = models.DateTimeField()
    tries = models.PositiveSmallIntegerField(default=0)
    sent_at = models.DateTimeField(null=True, blank=True)
    given_up_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["not_before"],
                condition=models.Q(sent_at__isnull=True, given_up_at__isnull=True),
                name="mail_to_send",
            )
        ]


class GrantNotice(models.Model):
    """A person was told that what a request was granted has at most so many days left."""

    request = models.ForeignKey(QuotaRequest, on_delete=models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    days = models.PositiveSmallIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["request", "person", "days"], name="end_notice_once")
        ]
