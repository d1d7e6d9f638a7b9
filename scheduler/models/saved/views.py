"""Saved views: query strings of tables under a name."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class SavedView(models.Model):
    """How one person looks at one table; with a `team` its members see it, too.

    `query` is the query string without the place in the list. At most one view of a table is its
    owner's default: the one that the table opens with.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views"
    )
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    table = models.CharField(max_length=32)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000)
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["person", "table", "name"], name="saved_view_named_once"
            ),
            models.UniqueConstraint(
                fields=["person", "table"],
                condition=models.Q(is_default=True),
                name="saved_view_one_default",
            ),
        ]

    def __str__(self) -> str:
        return self.name
