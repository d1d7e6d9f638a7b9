"""Schedules of jobs, and what came of each of their due times."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import models

from accounts.models import Project
from scheduler.models.composing import TemplateVersion
from scheduler.models.jobs import Job
from scheduler.spec.recurring.dues import read_zone
from scheduler.spec.recurring.rules import TimeRule, read_time_rule
from scheduler.spec.recurring.spoken import spoken
from scheduler.spec.recurring.words import OUTCOME_WORDS, OVERLAP_WORDS, Overlap

_PERSON = settings.AUTH_USER_MODEL


class JobSchedule(models.Model):
    """A job that its owner has submitted again and again, at the times of a rule in a zone.

    `document` is as `JobSpec.document`; with `template` its rules hold each time. `next_due_at` is
    None while it is paused (`paused_at`) and after `ends_at`. A due time found `late_within_s`
    late or less is made up for. After `pause_after` failures in a row since `counted_from` it
    pauses itself; 0: never. `most_open` jobs of it wait and run at most, where they queue. Jobs of
    before `owned_from` are of an owner who has left; None: it was always the same.
    """

    owner = models.ForeignKey(_PERSON, on_delete=models.PROTECT, related_name="job_schedules")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="job_schedules")
    name = models.CharField(max_length=128)
    document = models.JSONField()
    template = models.ForeignKey(
        TemplateVersion, on_delete=models.CASCADE, null=True, blank=True, related_name="schedules"
    )
    rule = models.CharField(max_length=120)
    zone = models.CharField(max_length=64, default="UTC")
    overlap = models.CharField(
        max_length=8,
        choices=[(str(one), words) for one, words in OVERLAP_WORDS.items()],
        default=str(Overlap.SKIP),
    )
    most_open = models.PositiveSmallIntegerField(default=3)
    late_within_s = models.PositiveIntegerField(default=3600)
    pause_after = models.PositiveSmallIntegerField(default=5)
    starts_at = models.DateTimeField(null=True, blank=True)
    ends_at = models.DateTimeField(null=True, blank=True)
    next_due_at = models.DateTimeField(null=True, blank=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_by = models.ForeignKey(
        _PERSON, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    pause_reason = models.CharField(max_length=400, blank=True)
    counted_from = models.DateTimeField()
    created_at = models.DateTimeField()
    owned_from = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["name", "pk"]
        indexes = [
            models.Index(
                fields=["next_due_at"],
                condition=models.Q(next_due_at__isnull=False),
                name="job_schedule_due",
            )
        ]

    def __str__(self) -> str:
        return f"schedule {self.pk}"

    @property
    def time_rule(self) -> TimeRule:
        """Raises ValueError for one that this version reads no more."""
        return read_time_rule(self.rule)

    @property
    def in_words(self) -> str:
        """When it is due, as people say it; empty where the rule itself says it best."""
        return "" if self.unread else spoken(self.time_rule)

    @property
    def unread(self) -> str:
        """What this version, or this machine, reads no more of when it is due; empty: nothing."""
        for field, read in (("rule", read_time_rule), ("zone", read_zone)):
            try:
                read(getattr(self, field))
            except ValueError as error:
                return f"{field}: {error}"
        return ""

    @property
    def zone_info(self) -> ZoneInfo:
        """Raises ValueError for a zone that this machine knows no more."""
        return read_zone(self.zone)

    @property
    def is_over(self) -> bool:
        """Whether it has no time left, and is not just paused."""
        return self.next_due_at is None and self.paused_at is None


class JobScheduleRun(models.Model):
    """What came of one due time, written with the job itself: no due time brings two.

    `by_hand`: somebody pressed for it in that minute, due or not. `job` is that of a submitted one,
    of an array its first task; `said` says why there is none, or what is special.
    """

    schedule = models.ForeignKey(JobSchedule, on_delete=models.CASCADE, related_name="runs")
    due_at = models.DateTimeField()
    by_hand = models.BooleanField(default=False)
    at = models.DateTimeField(db_index=True)
    outcome = models.CharField(
        max_length=12, choices=[(str(one), words) for one, words in OUTCOME_WORDS.items()]
    )
    job = models.OneToOneField(
        Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="schedule_run"
    )
    said = models.CharField(max_length=400, blank=True)

    class Meta:
        ordering = ["-due_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "due_at", "by_hand"], name="schedule_run_once"
            )
        ]

    def __str__(self) -> str:
        return f"run of schedule {self.schedule_id}"
