"""Who may hold how much, what budgets have left, and the rule in force."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.cluster import Pool


class Account(models.Model):
    """A node of the tree organisation, teams, projects that has rules of its own.

    Made when it gets its first one; a team or project without a row has none. `key` is "org",
    "team:<id>" or "project:<id>". `weight` is its share beside its siblings. The caps hold for all
    below: GPUs of a job, jobs running, jobs waiting, open sessions; `priority_ceiling`: of tiers.
    """

    key = models.CharField(max_length=32, unique=True, editable=False)
    team = models.OneToOneField(
        "accounts.Team", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.OneToOneField(
        "accounts.Project", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    depth = models.PositiveSmallIntegerField()
    weight = models.FloatField(default=1.0)
    max_gpus_per_job = models.PositiveIntegerField(null=True, blank=True)
    max_running = models.PositiveIntegerField(null=True, blank=True)
    max_pending = models.PositiveIntegerField(null=True, blank=True)
    max_sessions = models.PositiveIntegerField(null=True, blank=True)
    priority_ceiling = models.PositiveSmallIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["depth", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(weight__gt=0), name="account_weight_above_zero"
            )
        ]

    def __str__(self) -> str:
        return self.key


class Quota(models.Model):
    """What an account and all below it may hold of a pool and a GPU model; empty means any.

    `held` counts the devices held now, `held_milli` what they are of cards, in milli-GPU, which is
    what limits are compared with. Both change in the transaction that takes or gives them back.
    `max_hours`: the longest time limit that a job may be submitted with; for any GPU model only.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="quotas")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, blank=True)
    gpu_model = models.CharField(max_length=96, blank=True)
    guaranteed = models.PositiveIntegerField(default=0)
    borrow_limit = models.PositiveIntegerField(null=True, blank=True)
    lend_limit = models.PositiveIntegerField(null=True, blank=True)
    maximum = models.PositiveIntegerField(null=True, blank=True)
    max_hours = models.PositiveIntegerField(null=True, blank=True)
    held = models.PositiveIntegerField(default=0)
    held_milli = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["account__depth", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["account", "pool", "gpu_model"],
                condition=models.Q(pool__isnull=False),
                name="quota_once_in_a_pool",
            ),
            models.UniqueConstraint(
                fields=["account", "gpu_model"],
                condition=models.Q(pool__isnull=True),
                name="quota_once_in_all_pools",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account_id}: {self.gpu_model or 'any GPU'}"


class Grant(models.Model):
    """GPUs, or hours of time limit, added to a quota from `valid_from` until right before
    `valid_until`. Never edited.

    Revoking is final and says who did it.
    """

    quota = models.ForeignKey(Quota, on_delete=models.CASCADE, related_name="grants")
    guaranteed = models.PositiveIntegerField(default=0)
    borrow_limit = models.PositiveIntegerField(default=0)
    maximum = models.PositiveIntegerField(default=0)
    max_hours = models.PositiveIntegerField(default=0)
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField()
    reason = models.CharField(max_length=255, blank=True)
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(valid_from__lt=models.F("valid_until")),
                name="grant_begins_before_it_ends",
            )
        ]


class Enforcement(models.TextChoices):
    """What a budget does to jobs."""

    WARN = "warn", "Warn: counts, and stops nobody"
    RESERVE = "reserve", "Reserve: a job starts only if its worst case fits"
    HARD_STOP = "hard_stop", "Hard stop: once it is used up, jobs stop after a grace time"


class AlertAction(models.TextChoices):
    """What an alert does beside telling people."""

    NOTIFY = "notify", "Tell people"
    BLOCK_SUBMITS = "block_submits", "Refuse new jobs"
    BORROWED_ONLY = "borrowed_only", "Start jobs on borrowed GPUs only"


class Threshold(models.TextChoices):
    """When an alert fires: per cent of a budget that are used, or will be."""

    HALF = "50", "50 % used"
    MOST = "80", "80 % used"
    ALL = "100", "100 % used"
    FORECAST = "forecast", "100 % forecast"


class CommitsAt(models.TextChoices):
    """From when on a budget keeps the worst case of a job."""

    SUBMIT = "submit", "When it is submitted"
    START = "start", "When it starts"


class Renewal(models.TextChoices):
    """Whether the next period's budget comes by itself."""

    NONE = "", "no"
    MONTHLY = "monthly", "every month"
    QUARTERLY = "quarterly", "every quarter"


class Budget(models.Model):
    """GPU-seconds or money of an account from `valid_from` until right before `valid_until`.

    Money is in steps (`scheduler.money`). A submit or a start, as `commits_at` says, commits the
    worst case, in money no more than the job's highest price; at its end that is released and what
    it took is spent. `version` counts changes; `carried` is the part of the limit left over from
    the budget before, `granted` the part that requests added; `spent_out_at`: when a hard stop was
    reached.
    `action` is taken when the alert of `action_at` fires. `renewal`: the next period's budget comes
    by itself when this one is over, at `renewed_at`.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="budgets")
    gpu_seconds = models.PositiveBigIntegerField(null=True, blank=True)
    money = models.PositiveBigIntegerField(null=True, blank=True)
    currency = models.CharField(max_length=3, blank=True)
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField()
    enforcement = models.CharField(
        max_length=16, choices=Enforcement.choices, default=Enforcement.RESERVE
    )
    commits_at = models.CharField(
        max_length=16,
        choices=CommitsAt.choices,
        default=CommitsAt.START,
        db_default=CommitsAt.START.value,
    )
    grace_s = models.PositiveIntegerField(default=600)
    carry_percent = models.PositiveSmallIntegerField(default=0)
    carried = models.PositiveBigIntegerField(default=0)
    granted = models.PositiveBigIntegerField(default=0)
    renewal = models.CharField(max_length=16, choices=Renewal.choices, default="", blank=True)
    renewed_at = models.DateTimeField(null=True, blank=True)
    action = models.CharField(
        max_length=16, choices=AlertAction.choices, default=AlertAction.NOTIFY
    )
    action_at = models.CharField(max_length=16, choices=Threshold.choices, default=Threshold.ALL)
    version = models.PositiveIntegerField(default=1)
    committed_s = models.PositiveBigIntegerField(default=0)
    spent_s = models.PositiveBigIntegerField(default=0)
    committed_money = models.PositiveBigIntegerField(default=0)
    spent_money = models.PositiveBigIntegerField(default=0)
    spent_out_at = models.DateTimeField(null=True, blank=True)
    carried_on_at = models.DateTimeField(null=True, blank=True)
    looked_at = models.DateTimeField(null=True, blank=True)
    foreseen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["account__depth", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(valid_from__lt=models.F("valid_until")),
                name="budget_begins_before_it_ends",
            ),
            # The databases agree on no unsigned type.
            models.CheckConstraint(
                condition=models.Q(
                    committed_s__gte=0, spent_s__gte=0, committed_money__gte=0, spent_money__gte=0
                ),
                name="budget_counts_from_zero",
            ),
            models.CheckConstraint(
                condition=models.Q(gpu_seconds__isnull=False, money__isnull=True)
                | (
                    models.Q(gpu_seconds__isnull=True, money__isnull=False) & ~models.Q(currency="")
                ),
                name="budget_in_one_measure",
            ),
        ]

    @property
    def is_money(self) -> bool:
        """Whether it is in money, else it is in GPU-seconds."""
        return self.money is not None

    @property
    def limit(self) -> int:
        """In its own measure, as are the next two: GPU-seconds, or steps of money."""
        return self.money if self.money is not None else self.gpu_seconds or 0

    @property
    def usual(self) -> int:
        """The limit as it was set: without what was left over or granted on top."""
        return self.limit - self.carried - self.granted

    @property
    def committed(self) -> int:
        """Kept for the worst case of what runs, and of what waits where it commits at a submit."""
        return self.committed_money if self.is_money else self.committed_s

    @property
    def spent(self) -> int:
        """Taken by what has ended."""
        return self.spent_money if self.is_money else self.spent_s


class SchedulingRule(models.Model):
    """The policy of scheduling from `created_at` on; the newest row is in force, none is edited.

    `name` is a shipped order: fair, fifo, shortest or las. Empty columns mean what is usual.
    """

    name = models.CharField(max_length=16)
    half_life_s = models.FloatField(null=True, blank=True)
    head_patience_s = models.FloatField(null=True, blank=True)
    placement = models.CharField(max_length=16, blank=True)
    preempts = models.BooleanField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        ordering = ["-id"]
