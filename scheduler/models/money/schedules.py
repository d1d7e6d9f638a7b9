"""Reports that are sent by themselves: what, how often, to whom; and what went out."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

_PERSON = settings.AUTH_USER_MODEL


class Rhythm(models.TextChoices):
    """How often. A month's report goes once the month before is closed, or over if it never is."""

    WEEKLY = "weekly", "every Monday"
    MONTHLY = "monthly", "every month"


class ReportSchedule(models.Model):
    """A report for some people; each gets what they may see when it is sent. Ended, never edited.

    `filters` as in the report's address; `slug`, `file_format` as there too.
    """

    slug = models.CharField(max_length=32)
    filters = models.JSONField(default=dict, blank=True)
    rhythm = models.CharField(max_length=8, choices=Rhythm.choices)
    file_format = models.CharField(max_length=8)
    recipients: models.ManyToManyField[Any, Any] = models.ManyToManyField(_PERSON, related_name="+")
    created_by = models.ForeignKey(_PERSON, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.slug}, {self.rhythm}"


class ReportDelivery(models.Model):
    """One mail of a schedule for a date to a person: claimed first, so that it goes out once.

    `outcome` is sent, or why not; empty while somebody is at it.
    """

    schedule = models.ForeignKey(
        ReportSchedule, on_delete=models.CASCADE, related_name="deliveries"
    )
    due_on = models.DateField()
    period = models.CharField(max_length=7)
    recipient = models.ForeignKey(_PERSON, on_delete=models.CASCADE, related_name="+")
    claimed_at = models.DateTimeField()
    outcome = models.CharField(max_length=255, blank=True)

    class Meta:
        ordering = ["-due_on", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "due_on", "recipient"], name="report_delivered_once"
            )
        ]
