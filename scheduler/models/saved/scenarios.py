"""Scenarios: the recent past once more under other rules."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.cluster import Pool


class Scenario(models.Model):
    """An operator's question about the last hours of a pool, of all together if it names none, and
    what the simulator answered.

    `changes` are in the words of `scheduler/simulator/changes.py`. `progress`: waiting, running,
    done, empty (no job of that time has ended) or failed. `claimed_at`: when its worker last said
    that it is at work.
    """

    name = models.CharField(max_length=80, blank=True)
    pool = models.ForeignKey(
        Pool, on_delete=models.CASCADE, null=True, blank=True, related_name="scenarios"
    )
    hours = models.PositiveIntegerField()
    changes = models.JSONField(default=list)
    progress = models.CharField(max_length=8, default="waiting")
    answer = models.JSONField(default=dict, blank=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name or f"scenario {self.pk}"
