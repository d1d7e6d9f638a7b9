"""Jobs that are still being written."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class JobDraft(models.Model):
    """What one person filled in and has not sent: the form's fields as they were typed.

    `key` is the form's hidden one, so that a draft and the job it becomes belong together.
    """

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="drafts"
    )
    key = models.CharField(max_length=128)
    name = models.CharField(max_length=128, blank=True)
    fields = models.JSONField()
    saved_at = models.DateTimeField()

    class Meta:
        ordering = ["-saved_at", "-pk"]
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="draft_once")]

    def __str__(self) -> str:
        return f"draft {self.pk} of {self.owner_id}"
