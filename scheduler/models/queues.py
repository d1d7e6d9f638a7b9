"""Waiting lines into pools, and the rules of scheduling that a pool has of its own."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.cluster import Pool


class Queue(models.Model):
    """An ordered waiting line into a pool. A paused queue takes jobs and starts none."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="queues")
    name = models.SlugField(max_length=63)
    is_paused = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pool__name", "name"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "name"], name="queue_name_once_per_pool")
        ]

    def __str__(self) -> str:
        return self.name


class PoolRule(models.Model):
    """The policy of a pool in place of the cluster's (`SchedulingRule`), until `ended_at`.

    `name` is a shipped order. Empty columns mean what the cluster has. Rows are never edited but
    for their end, so those before tell what was in force when.
    """

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="rules")
    name = models.CharField(max_length=16)
    head_patience_s = models.FloatField(null=True, blank=True)
    placement = models.CharField(max_length=16, blank=True)
    preempts = models.BooleanField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool"],
                condition=models.Q(ended_at__isnull=True),
                name="one_rule_in_force_per_pool",
            )
        ]
