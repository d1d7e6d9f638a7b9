"""That a demonstration is here, how the database was before it, and who asked for it or its end."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class DemoMark(models.Model):
    """At most one row. `roots`: ids of what was made, by table; `before`: heads and last ids."""

    seeded_at = models.DateTimeField()
    seed = models.BigIntegerField()
    roots = models.JSONField(default=dict)
    before = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"demonstration of {self.seeded_at:%Y-%m-%d}"


class DemoAct(models.TextChoices):
    """What an administrator can ask for."""

    LOAD = "load", "load"
    REMOVE = "remove", "remove"


class DemoOrder(models.Model):
    """At most one row: what was asked for last, who is at it, and what came of it.

    `holder`: the process that carries it out, empty while nobody does; `tries`: how often one
    began. `is_beside`: wanted although there are jobs of others. `rows`: how many were removed.
    """

    act = models.CharField(max_length=8, choices=DemoAct.choices)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    asked_at = models.DateTimeField()
    is_beside = models.BooleanField(default=False)
    holder = models.CharField(max_length=128, blank=True, default="")
    claimed_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    ended_at = models.DateTimeField(null=True, blank=True)
    is_refused = models.BooleanField(default=False)
    says = models.CharField(max_length=400, blank=True, default="")
    rows = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.act} the demonstration"
