"""Where every second of every device went; written in the transaction that changed it."""

from __future__ import annotations

from django.db import models

from scheduler.ledger.segments import ALLOCATED, Bucket
from scheduler.models.attempts import Attempt
from scheduler.models.cluster import Device, Pool


class DeviceSegment(models.Model):
    """A device's time in one bucket, whole seconds since 1970 UTC, half-open; open without end.

    A device's rows touch: no gap from its first enrolment on, time out of service included. Rows
    are only added and ended. Pool, model and project are those of their time; time reserved and not
    used carries the project it is kept for, or the team where a whole
    team booked it. What of held time was borrowed follows from guarantees when
    the month is rated.
    """

    device = models.ForeignKey(
        Device, on_delete=models.PROTECT, related_name="segments", db_index=False
    )
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    flavour = models.CharField(max_length=96)
    bucket = models.CharField(max_length=16, choices=[(str(b), str(b)) for b in Bucket])
    attempt = models.ForeignKey(
        Attempt, on_delete=models.PROTECT, null=True, related_name="segments", db_index=False
    )
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )
    cause = models.CharField(max_length=32)
    start_s = models.BigIntegerField()
    end_s = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["device_id", "start_s", "id"]
        indexes = [
            models.Index(fields=["device", "start_s"], name="segment_by_device"),
            models.Index(fields=["attempt", "id"], name="segment_by_attempt"),
            models.Index(fields=["end_s"], name="segment_by_end"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["device"],
                condition=models.Q(end_s__isnull=True),
                name="one_open_segment_per_device",
            ),
            models.CheckConstraint(
                condition=models.Q(end_s__isnull=True) | models.Q(end_s__gte=models.F("start_s")),
                name="segment_ends_after_it_starts",
            ),
            models.CheckConstraint(
                condition=models.Q(bucket__in=[str(b) for b in Bucket]), name="segment_bucket_known"
            ),
            models.CheckConstraint(
                condition=models.Q(bucket__in=sorted(str(b) for b in ALLOCATED))
                ^ models.Q(attempt__isnull=True),
                name="segment_held_by_an_attempt",
            ),
        ]
