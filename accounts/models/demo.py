"""That a demonstration is here, and how the database was before it."""

from __future__ import annotations

from django.db import models


class DemoMark(models.Model):
    """At most one row. `roots`: ids of what was made, by table; `before`: heads and last ids."""

    seeded_at = models.DateTimeField()
    seed = models.BigIntegerField()
    roots = models.JSONField(default=dict)
    before = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"demonstration of {self.seeded_at:%Y-%m-%d}"
