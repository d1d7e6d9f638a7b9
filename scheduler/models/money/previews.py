"""What a price for time that has passed moves in closed months, as people saw it."""

from __future__ import annotations

from django.conf import settings
from django.db import models

_PERSON = settings.AUTH_USER_MODEL


class PricePreview(models.Model):
    """Figures of one look; only added. `moves`: month, account, its name, before, after, change.

    `stamp` says of which books and prices; `trouble` why nothing could be counted. `decided_at`:
    the price was approved upon these figures.
    """

    rate = models.ForeignKey("accounts.Rate", on_delete=models.CASCADE, related_name="previews")
    at = models.DateTimeField()
    by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    stamp = models.CharField(max_length=64)
    currency = models.CharField(max_length=3)
    moves = models.JSONField(default=list)
    trouble = models.CharField(max_length=400, blank=True)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
