"""What operators tell everybody for some time."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Announcement(models.Model):
    """A sentence on every home page from one moment to another; `ended_at`: taken back early."""

    text = models.CharField(max_length=500)
    is_warning = models.BooleanField(default=False)
    from_at = models.DateTimeField()
    until_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-from_at", "-id"]
        indexes = [
            models.Index(
                fields=["until_at"],
                condition=models.Q(ended_at__isnull=True),
                name="announcement_open",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(until_at__gt=models.F("from_at")),
                name="announcement_has_a_time",
            )
        ]

    def __str__(self) -> str:
        return self.text[:60]
