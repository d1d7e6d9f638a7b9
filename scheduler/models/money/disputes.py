"""What people said and did about a statement: sent, disputed, answered, settled."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.books import Statement


class StatementStep(models.TextChoices):
    """One thing done with a statement; money itself moves by adjustments and corrections only."""

    SENT = "sent", "sent"
    DISPUTED = "disputed", "disputed"
    ANSWERED = "answered", "answered"
    SETTLED = "settled", "settled"


class StatementEvent(models.Model):
    """A step and its words; only added. The last that is no mail says how it stands."""

    statement = models.ForeignKey(Statement, on_delete=models.PROTECT, related_name="events")
    step = models.CharField(max_length=8, choices=StatementStep.choices)
    at = models.DateTimeField()
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    text = models.CharField(max_length=1000, blank=True)

    class Meta:
        ordering = ["id"]
