"""Months that are counted in the background, because it takes longer than a page may."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class CountingAct(models.TextChoices):
    """What a month is counted for."""

    CHECK = "check", "check"
    SOFT_CLOSE = "soft-close", "soft close"
    CLOSE = "close", "close"
    CORRECT = "correct", "correction"
    PREVIEW = "preview", "preview"


class Counting(models.Model):
    """One wish and what came of it; the acts themselves are guarded and recorded where they are.

    `month` for those of a month, `rate` for what a price for the past would move. `found`: a
    check's figures, and findings. Who claimed it and says nothing for minutes has died over it.
    """

    act = models.CharField(max_length=10, choices=CountingAct)
    month = models.CharField(max_length=7, blank=True)
    rate = models.ForeignKey(
        "accounts.Rate", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    seen = models.CharField(max_length=64, blank=True)
    reason = models.CharField(max_length=255, blank=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    asked_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    is_refused = models.BooleanField(default=False)
    says = models.CharField(max_length=400, blank=True)
    found = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["month"],
                condition=Q(ended_at__isnull=True) & ~Q(month=""),
                name="one_counting_a_month",
            ),
            models.UniqueConstraint(
                fields=["rate"],
                condition=Q(ended_at__isnull=True, rate__isnull=False),
                name="one_counting_a_price",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.act} of {self.month or self.rate}"

    @property
    def is_waiting(self) -> bool:
        """Whether it is still to be done."""
        return self.ended_at is None
