"""What the nightly reconciliation found."""

from __future__ import annotations

from django.db import models


class Reconciliation(models.Model):
    """One run over live data, only added. `checks`: slug, what ties to what, whether, words."""

    at = models.DateTimeField()
    holds = models.BooleanField()
    checks = models.JSONField(default=list)

    class Meta:
        ordering = ["-id"]
