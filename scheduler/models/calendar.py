"""What is planned for nodes."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.cluster import Pool


class MaintenanceWindow(models.Model):
    """From when until when nodes of a pool take no work; `nodes` are their ids, none means all."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="windows")
    nodes = models.JSONField(default=list, blank=True)
    from_at = models.DateTimeField()
    until_at = models.DateTimeField(db_index=True)
    reason = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["from_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(from_at__lt=models.F("until_at")), name="window_ends_later"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id}: {self.from_at} to {self.until_at}"
