"""Devices that are kept for a waiting job while others make room for it."""

from __future__ import annotations

from django.db import models

from scheduler.models.cluster import Device, Node
from scheduler.models.jobs import Job


class Claim(models.Model):
    """One device that the job will have on one of its nodes, once those who hold it have left.

    All claims of a job together are its room: `rank`, `cpus` and `memory_mib` are those of the
    share that the device belongs to. What a claim promises is no allocation; a device that is
    free meanwhile is reserved for the job's project. It is void from `expires_at` on.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="claims")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    device = models.OneToOneField(Device, on_delete=models.CASCADE, related_name="claim")
    rank = models.PositiveIntegerField()
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveBigIntegerField()
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["job_id", "rank", "device_id"]

    def __str__(self) -> str:
        return f"device {self.device_id} for job {self.job_id}"
