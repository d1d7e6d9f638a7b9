"""What happened, in order; rows are only ever added."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from scheduler.models.attempts import Attempt
from scheduler.models.cluster import Node, Pool
from scheduler.models.jobs import Job


class JobEvent(models.Model):
    """One thing that happened to a job; a move names both states. Append-only."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, null=True, related_name="+")
    at = models.DateTimeField()
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    kind = models.CharField(max_length=32)
    from_state = models.CharField(max_length=16, blank=True)
    to_state = models.CharField(max_length=16, blank=True)
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["job_id", "id"]


class NodeEvent(models.Model):
    """One thing that happened to a node. Append-only."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    kind = models.CharField(max_length=32)
    from_state = models.CharField(max_length=16, blank=True)
    to_state = models.CharField(max_length=16, blank=True)
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["node_id", "id"]


class StartForecast(models.Model):
    """What a job was told when the scheduler first made it wait; kept to see what came true.

    Times are empty where there was no forecast. Never changed afterwards.
    """

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, primary_key=True, related_name="forecast"
    )
    told_at = models.DateTimeField(db_index=True)
    p50_at = models.DateTimeField(null=True)
    p90_at = models.DateTimeField(null=True)


class PoolHour(models.Model):
    """What one hour was like in the line of a pool; written once, when the hour is over.

    `hour` is its begin. `submitted` jobs came, `started` ones were placed for the first time after
    `waits`: how many of them by bucket of seconds waited, a bucket being named by its number
    (`selectors/waits/buckets.py`). Of the started ones that had been told when, `told`, so many did
    within p50 and within p90.
    """

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="hours")
    hour = models.DateTimeField()
    submitted = models.PositiveIntegerField()
    started = models.PositiveIntegerField()
    waits = models.JSONField(default=dict)
    told = models.PositiveIntegerField()
    within_p50 = models.PositiveIntegerField()
    within_p90 = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pool", "hour"], name="pool_hour_once")]
        indexes = [models.Index(fields=["hour"], name="pool_hour_by_hour")]


class CycleRecord(models.Model):
    """What one scheduling cycle did and how long it took; quiet cycles are not recorded.

    The phases leave out the lease and the reaping. `statements` were sent to the database.
    """

    at = models.DateTimeField(db_index=True)
    duration_ms = models.FloatField()
    load_ms = models.FloatField(default=0)
    plan_ms = models.FloatField(default=0)
    commit_ms = models.FloatField(default=0)
    statements = models.PositiveIntegerField(default=0)
    reasons = models.PositiveIntegerField(default=0)
    reaped = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField()
    started = models.PositiveIntegerField()
    stopped = models.PositiveIntegerField()
    dropped = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]


class SchedulerLease(models.Model):
    """One scheduler at a time. `token` rises with every new holder and fences its commits.

    It lasts LASTS_S and is lengthened by who has decided alone, so its end tells when that was.
    """

    # A holder that dies without a word on another host is replaced after this time.
    LASTS_S: ClassVar[int] = 6

    name = models.CharField(max_length=32, primary_key=True)
    holder = models.CharField(max_length=128, blank=True)
    token = models.BigIntegerField(default=0)
    expires_at = models.DateTimeField()


class InvariantCheck(models.Model):
    """One look at the invariants on live data, only added.

    `since`: how far back it looked at what is over, null for all of it. `is_whole`: there was time
    for all. `breaks` are the first of `broken`, in words; `looked_at` counts by invariant.
    """

    at = models.DateTimeField()
    since = models.DateTimeField(null=True)
    took_s = models.FloatField()
    is_whole = models.BooleanField()
    broken = models.PositiveIntegerField()
    breaks = models.JSONField(default=list)
    looked_at = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]

    @property
    def is_sound(self) -> bool:
        """Whether all was looked at and nothing is broken."""
        return self.is_whole and not self.broken
