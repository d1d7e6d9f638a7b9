"""Waiting lines into pools."""

from __future__ import annotations

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
