"""What was used, with the price of its day frozen into the row, and what of it still counts."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.attempts import Allocation, Attempt
from scheduler.models.exact import ExactAmount


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


class DayOfWaste(models.Model):
    """GPU-seconds of a person's jobs on one UTC day by what became of them, and what was charged.

    `account` paid, `home` is that of the job's project: where the platform pays for what it broke
    they differ. Of nobody's job (null) are shares and what was kept for nobody. Holds while the
    day's `SummedDay` does.
    """

    day_s = models.BigIntegerField()
    account = models.CharField(max_length=64)
    home = models.CharField(max_length=64)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+"
    )
    held = models.BigIntegerField()
    idle = models.BigIntegerField()
    unread = models.BigIntegerField()
    around = models.BigIntegerField()
    reserved = models.BigIntegerField()
    amount = ExactAmount()
    idle_amount = ExactAmount()
    reserved_amount = ExactAmount()
    shared_amount = ExactAmount()

    class Meta:
        indexes = [models.Index(fields=["day_s", "account"], name="waste_of_days")]


class DayOfReadings(models.Model):
    """Of an attempt's readings on one UTC day: how many told the use, and how many of them lie in
    idle spans. Stays when the readings go."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+", db_index=False)
    day_s = models.BigIntegerField(db_index=True)
    readings = models.BigIntegerField()
    idle = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "day_s"], name="day_of_readings_once")
        ]


class HourOfReadings(models.Model):
    """The same of the begin of one hour, up to `until_s`, while its readings are raw. Holds where
    `SummedHour` names that second; whoever began to read goes by the one before."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+")
    hour_s = models.BigIntegerField()
    until_s = models.BigIntegerField()
    readings = models.BigIntegerField()
    idle = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["hour_s", "until_s", "attempt"], name="hour_of_readings_once"
            )
        ]


class HourOfIdle(models.Model):
    """Which spans of an hour were idle of a device for an attempt, as bits, the first span the
    lowest; holds as `HourOfReadings` does, and nothing is there where none was."""

    device = models.ForeignKey("scheduler.Device", on_delete=models.CASCADE, related_name="+")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+")
    hour_s = models.BigIntegerField()
    until_s = models.BigIntegerField()
    spans = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["hour_s", "until_s", "attempt", "device"], name="hour_of_idle_once"
            )
        ]


class SpanBegun(models.Model):
    """What a device's readings of an attempt say of a span that began at `span_s`, up to `until_s`,
    before it is known whether it is idle: how many told the use, their per cent together, and the
    highest."""

    device = models.ForeignKey("scheduler.Device", on_delete=models.CASCADE, related_name="+")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+")
    span_s = models.BigIntegerField()
    until_s = models.BigIntegerField()
    readings = models.BigIntegerField()
    percent = models.FloatField()
    highest = models.FloatField(default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["span_s", "until_s", "device", "attempt"], name="span_begun_once"
            )
        ]


class SpanOfReadings(models.Model):
    """What the readings of all devices of an attempt say of a span of the last hour that began at
    `at` and is over: how many told the use, their per cent together, and the highest."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="+", db_index=False)
    at = models.DateTimeField()
    readings = models.BigIntegerField()
    percent = models.FloatField()
    highest = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "at"], name="span_of_readings_once")
        ]


class SummedHour(models.Model):
    """An hour whose readings before `until_s` are summed, by the rule `idle_as`: those of spans
    that ended by `spans_s` as `HourOfReadings`, those of the span that begins then as
    `SpanBegun`. Of one that rests after it was undone nothing is: `idle_as` says since when."""

    hour_s = models.BigIntegerField(unique=True)
    spans_s = models.BigIntegerField()
    until_s = models.BigIntegerField()
    idle_as = models.CharField(max_length=48)


class HoursSummed(models.Model):
    """One row. `run` counts who began to sum, up to the second `aims_s`; `turn` is another one
    whenever something is undone. Calls with late readings alone came from `late_from` to `late_at`;
    `late_s`: how old their readings were, where that goes on."""

    turn = models.BigIntegerField(default=0)
    run = models.BigIntegerField(default=0, db_default=0)
    aims_s = models.BigIntegerField(default=0, db_default=0)
    late_s = models.BigIntegerField(default=0, db_default=0)
    late_from = models.DateTimeField(null=True, blank=True)
    late_at = models.DateTimeField(null=True, blank=True)


class SummedDay(models.Model):
    """A UTC day that `DayOfWaste` has; without it the day's rows say nothing.

    `is_final`: its month was closed by then. `idle_as`: what was idle then, where readings might
    still come or be rolled up by another rule; empty: they are all hours.
    """

    day_s = models.BigIntegerField(unique=True)
    is_final = models.BooleanField()
    idle_as = models.CharField(max_length=48, blank=True)


class DaysSummed(models.Model):
    """One row: usage entries up to `upto` are in the summed days, or have undone them. `turn` is
    another one whenever somebody begins to sum or undoes a day."""

    upto = models.BigIntegerField()
    turn = models.BigIntegerField(default=0)
    at = models.DateTimeField()


class PastUse(models.Model):
    """GPU-seconds that a person used for a team, decayed until `counted_until`."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    gpu_seconds = models.FloatField()
    counted_until = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="past_use_once")]
