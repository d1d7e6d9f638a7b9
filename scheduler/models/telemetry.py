"""Readings of devices and hosts; raw rows are kept for a day, those of devices then as hours."""

from __future__ import annotations

from django.db import models

from scheduler.models.attempts import Attempt
from scheduler.models.cluster import Device, Node

# What stands in `gpu_percent` where the driver does not tell it; no mean counts it.
UNKNOWN_USE = -1.0
KNOWN_USE = models.Q(gpu_percent__gte=0)
# In per cent: a display or an idle framework may hold a card a little busy.
WORKS_FROM = 5.0
# An hour of which every minute is idle, in bits.
ALL_MINUTES = 2**60 - 1


def may_work(below: float) -> models.Q:
    """Readings that speak for a session or job: a GPU that works, or does not tell. Nobody is
    stopped for what is not known."""
    return models.Q(gpu_percent__gte=below) | ~KNOWN_USE


# For the idle clock of sessions.
MAY_WORK = may_work(WORKS_FROM)


class Slowing(models.Model):
    """What held the clocks of a device down, in per cent of the time: heat, or the limit of its
    power; None where that is not told."""

    slowed_by_heat = models.PositiveSmallIntegerField(null=True)
    slowed_by_power = models.PositiveSmallIntegerField(null=True)

    class Meta:
        abstract = True


class DeviceSample(Slowing):
    """One reading of one device, and the attempt that held it; `gpu_percent` may be UNKNOWN_USE."""

    device = models.ForeignKey(
        Device, on_delete=models.CASCADE, related_name="samples", db_index=False
    )
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, null=True, related_name="samples", db_index=False
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

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="samples", db_index=False)
    at = models.DateTimeField(db_index=True)
    cpu_percent = models.FloatField()
    memory_used_mib = models.PositiveBigIntegerField()
    scratch_free_mib = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "at"], name="host_sample_once")]


class DeviceHour(Slowing):
    """What is left of the readings of a device for one attempt (None: nobody's) in one hour.

    `hour` is its begin; use is the mean of `count` readings that tell it (UNKNOWN_USE and 0: none
    did), power that of all, memory and temperature the highest; `idle` of `count` lie in spans of
    little use (None: rolled up before that was counted; earlier hours count single readings);
    `idle_minutes`: the minutes of such spans as bits, the first minute the lowest.
    """

    device = models.ForeignKey(
        Device, on_delete=models.CASCADE, related_name="hours", db_index=False
    )
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, null=True, related_name="hours", db_index=False
    )
    hour = models.DateTimeField(db_index=True)
    count = models.PositiveIntegerField()
    idle = models.PositiveIntegerField(null=True)
    idle_minutes = models.BigIntegerField(null=True)
    gpu_percent = models.FloatField()
    memory_used_mib = models.PositiveBigIntegerField()
    power_watts = models.FloatField()
    temperature_c = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["device", "attempt", "hour"], name="device_hour_once"),
            models.UniqueConstraint(
                fields=["device", "hour"],
                condition=models.Q(attempt=None),
                name="idle_device_hour_once",
            ),
        ]
        indexes = [models.Index(fields=["attempt", "hour"], name="hour_by_attempt")]
