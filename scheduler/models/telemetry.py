"""Readings of devices and hosts; raw rows are kept for a day."""

from __future__ import annotations

from django.db import models

from scheduler.models.attempts import Attempt
from scheduler.models.cluster import Device, Node


class DeviceSample(models.Model):
    """One reading of one device, and the attempt that held it."""

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="samples")
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, null=True, related_name="samples"
    )
    at = models.DateTimeField(db_index=True)
    gpu_percent = models.FloatField()
    memory_used_mib = models.PositiveBigIntegerField()
    power_watts = models.FloatField()
    temperature_c = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["device", "at"], name="device_sample_once")]
        indexes = [models.Index(fields=["attempt", "at"], name="sample_by_attempt")]


class HostSample(models.Model):
    """One reading of a node beside its devices."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField(db_index=True)
    cpu_percent = models.FloatField()
    memory_used_mib = models.PositiveBigIntegerField()
    scratch_free_mib = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "at"], name="host_sample_once")]
