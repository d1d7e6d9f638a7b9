"""Files of reports that are made in the background and kept for a while."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class ReportFile(models.Model):
    """A report as a file, asked for by one person and theirs alone: it names whom they may name.

    `query` as in the report's address. `scope`: what its maker might see then, as it is told by
    `Scope.as_kept`; whoever may see less now does not get it. Made once: `digest` is of the bytes
    under `path`, which go after a while; what was asked for and what came of it stays.
    """

    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    asked_at = models.DateTimeField()
    slug = models.CharField(max_length=32)
    period = models.CharField(max_length=7)
    query = models.JSONField(default=dict, blank=True)
    file_format = models.CharField(max_length=16)
    claimed_at = models.DateTimeField(null=True, blank=True)
    made_at = models.DateTimeField(null=True, blank=True)
    pruned_at = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=255, blank=True)
    name = models.CharField(max_length=128, blank=True)
    path = models.CharField(max_length=255, blank=True)
    version = models.PositiveIntegerField(default=0)
    rows = models.PositiveBigIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    scope = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.slug} {self.period}, {self.file_format}"

    @property
    def is_there(self) -> bool:
        """Whether it can be fetched."""
        return self.made_at is not None and self.pruned_at is None

    @property
    def is_waiting(self) -> bool:
        """Whether it is still to be made."""
        return self.made_at is None and not self.problem
