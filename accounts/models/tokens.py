"""API tokens: hashed, scoped, expiring, perhaps bound; and keys of forms that show such things."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class ApiToken(models.Model):
    """A program's way in, acting for `user` within `scopes`. The secret itself is never stored.

    With a `project` it sees and submits nothing else; with `networks` it is good from there alone.
    `refused_at`: when it was last sent from elsewhere, to the minute.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.CharField(max_length=128)
    prefix = models.CharField(max_length=16)
    token_hash = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    # A token whose bound is gone must not become one without: it goes along.
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    networks = models.JSONField(default=list, blank=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    refused_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"


class SpentKey(models.Model):
    """The key of a form that has made what its answer showed once: it makes nothing any more.

    Kept for longer than such a form could be sent again.
    """

    key = models.CharField(max_length=32, unique=True)
    spent_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key
