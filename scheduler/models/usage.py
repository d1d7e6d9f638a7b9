"""What was used, with the price of its day frozen into the row, and what of it still counts."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.attempts import Allocation, Attempt


class UsageEntry(models.Model):
    """Charged seconds of one allocation in one period; append-only, never recomputed.

    `cost` = gpu_seconds x unit_price / 3600, exact to ten decimals; cents are a matter of
    presentation.
    """

    class Kind(models.TextChoices):
        ACCRUAL = "accrual", "Accrual"
        ADJUSTMENT = "adjustment", "Adjustment"

    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.ACCRUAL)
    allocation = models.ForeignKey(Allocation, on_delete=models.PROTECT, related_name="usage")
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="usage")
    job = models.ForeignKey("scheduler.Job", on_delete=models.PROTECT, related_name="usage")
    project = models.ForeignKey("accounts.Project", on_delete=models.PROTECT, related_name="usage")
    device_model = models.CharField(max_length=96)
    period_start = models.DateTimeField()
    period_end = models.DateTimeField()
    gpu_seconds = models.BigIntegerField()
    unit_price = models.DecimalField(max_digits=18, decimal_places=6)
    currency = models.CharField(max_length=3)
    cost = models.DecimalField(max_digits=20, decimal_places=10)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        # With all that sums are made of, so that a year of it is read from the index alone.
        indexes = [
            models.Index(
                fields=["project", "period_start", "unit_price", "gpu_seconds", "cost", "job"],
                name="usage_sums",
            )
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["allocation", "period_start"],
                condition=models.Q(kind="accrual"),
                name="accrual_once_per_period",
            )
        ]


class DayOfUse(models.Model):
    """What a person's jobs used of a project on one UTC day, on devices of one model at one price:
    the sum of usage entries that came after the rows before it, up to and with entry `upto`.

    Rows of the same day, model and price add up; they are put together once nobody reads an older
    count.
    """

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    device_model = models.CharField(max_length=96)
    day = models.DateTimeField()
    unit_price = models.DecimalField(max_digits=18, decimal_places=6)
    gpu_seconds = models.BigIntegerField()
    upto = models.BigIntegerField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "day", "person", "device_model", "unit_price", "upto"],
                name="day_of_use_once",
            )
        ]


class DayOfJobs(models.Model):
    """How many of a person's jobs were charged on one UTC day after being charged `before` on
    another, the last one before it (null: never). On devices of one model, or (empty) of any.

    Of the days of a span each job has one that is the first, the only one whose `before` lies
    outside: so these rows count every job of the span once. Rows of the same kind add up and may be
    below nothing, since an entry for a day between two others moves a job from one row to two.
    """

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="+")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    device_model = models.CharField(max_length=96, blank=True)
    day = models.DateTimeField()
    before = models.DateTimeField(null=True)
    jobs = models.BigIntegerField()
    upto = models.BigIntegerField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["project", "device_model", "day"], name="jobs_of_days")]


class DaysCounted(models.Model):
    """One row: usage entries up to `upto` are in the days of use, when that was last counted, and
    up to which entry rows of the same day are put together."""

    upto = models.BigIntegerField(default=0)
    together = models.BigIntegerField(default=0)
    at = models.DateTimeField()


class PastUse(models.Model):
    """GPU-seconds that a person used for a team, decayed until `counted_until`."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    gpu_seconds = models.FloatField()
    counted_until = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="past_use_once")]
