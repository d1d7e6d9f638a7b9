"""The same job many times over: a set and its tasks."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class JobSet(models.Model):
    """An array: one task for each index of `range`, each a job of its own (`Job.job_set`).

    At most `max_parallel` of its tasks wait for room or run at a time, 0 for no limit; the others
    are held. `rerun_of`: the set whose failed indexes these are.
    """

    project = models.ForeignKey("accounts.Project", on_delete=models.PROTECT, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=128)
    spec = models.JSONField()
    range = models.TextField()
    size = models.PositiveIntegerField()
    max_parallel = models.PositiveIntegerField(default=0)
    rerun_of = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="reruns"
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"set {self.pk} {self.name}"
