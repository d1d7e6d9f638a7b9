"""Rules for jobs whose GPUs do little, and the warnings that they have given."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from accounts.models import Project
from scheduler.models.attempts import Attempt
from scheduler.models.cluster import Pool
from scheduler.states import (
    IDLE_ACT_WORDS,
    IDLE_OUTCOME_WORDS,
    IdleAct,
    IdleOutcome,
    idle_evidence,
    idle_rule_name,
)

_ACTS = [(str(act), words) for act, words in IDLE_ACT_WORDS.items()]


class IdleRule(models.Model):
    """What happens to jobs of a project, or in a pool, whose GPUs do little; of one of both.

    A job is warned when each of its GPUs stayed below `below_percent` for `warn_minutes`, the
    `first_minutes` of an attempt aside; `act` follows `act_minutes` after the warning (None: it is
    only told). Its owner may keep an attempt for `keep_hours` in all. `version` counts changes:
    what was warned of by another one is lifted.
    """

    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, null=True, blank=True, related_name="idle_rule"
    )
    pool = models.OneToOneField(
        Pool, on_delete=models.CASCADE, null=True, blank=True, related_name="idle_rule"
    )
    is_on = models.BooleanField(default=False)
    below_percent = models.PositiveSmallIntegerField(default=5)
    first_minutes = models.PositiveIntegerField(default=30)
    warn_minutes = models.PositiveIntegerField(default=60)
    act = models.CharField(max_length=8, choices=_ACTS)
    act_minutes = models.PositiveIntegerField(null=True, blank=True)
    keep_hours = models.PositiveIntegerField(default=24)
    version = models.PositiveIntegerField(default=1)
    set_at = models.DateTimeField()
    set_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(project__isnull=False, pool__isnull=True)
                | models.Q(project__isnull=True, pool__isnull=False),
                name="idle_rule_of_project_or_pool",
            )
        ]

    def __str__(self) -> str:
        return f"idle rule {self.pk}"

    @property
    def owner(self) -> str:
        """Such as "project vision/digits"; a query unless project and team, or pool, are loaded."""
        if self.project is not None:
            return f"project {self.project.path}"
        return f"pool {self.pool}"

    @property
    def name(self) -> str:
        """As the one who warns and stops."""
        return idle_rule_name(self.owner)


class IdleWarning(models.Model):
    """One warning to one attempt by one rule: what was seen, what follows when, what came of it.

    `act_at` is None where it is only told. `looked_at`: when it was last looked at; time in which
    nobody looked does not count towards `act_at`. `kept_*` and `word` are the owner's, or a lead's.
    `freed_gpu_s`: of a pause or stop, the GPU-seconds left until the time limit.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="idle_warnings")
    rule = models.ForeignKey(IdleRule, on_delete=models.CASCADE, related_name="warnings")
    rule_version = models.PositiveIntegerField()
    warned_at = models.DateTimeField(db_index=True)
    idle_since = models.DateTimeField()
    below_percent = models.PositiveSmallIntegerField()
    gpus = models.PositiveIntegerField()
    readings = models.PositiveIntegerField()
    highest_percent = models.FloatField()
    act = models.CharField(max_length=8, choices=_ACTS)
    act_at = models.DateTimeField(null=True, blank=True)
    looked_at = models.DateTimeField()
    outcome = models.CharField(
        max_length=8,
        choices=[(str(one), words) for one, words in IDLE_OUTCOME_WORDS.items()],
        default=str(IdleOutcome.OPEN),
    )
    closed_at = models.DateTimeField(null=True, blank=True)
    kept_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    kept_hours = models.PositiveIntegerField(default=0)
    kept_until = models.DateTimeField(null=True, blank=True)
    word = models.CharField(max_length=200, blank=True)
    freed_gpu_s = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "rule"],
                condition=models.Q(outcome=str(IdleOutcome.OPEN)),
                name="one_open_idle_warning",
            )
        ]
        indexes = [
            models.Index(
                fields=["outcome"],
                condition=models.Q(outcome=str(IdleOutcome.OPEN)),
                name="idle_warning_open",
            )
        ]

    def __str__(self) -> str:
        return f"idle warning {self.pk}"

    @property
    def evidence(self) -> str:
        """What spoke for it when it was given."""
        return idle_evidence(
            gpus=self.gpus,
            below=self.below_percent,
            idle_s=int((self.warned_at - self.idle_since).total_seconds()),
            highest=self.highest_percent,
            readings=self.readings,
        )

    @property
    def is_acting(self) -> bool:
        """Whether something follows it."""
        return self.act != IdleAct.TELL
