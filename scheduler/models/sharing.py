"""Who may hold how much, what budgets have left, what was used before, and the rule in force."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.attempts import Attempt
from scheduler.models.cluster import Pool


class Account(models.Model):
    """A node of the tree organisation, teams, projects that has rules of its own.

    Made when it gets its first one; a team or project without a row has none. `key` is "org",
    "team:<id>" or "project:<id>". `weight` is its share beside its siblings. The caps hold for all
    below: GPUs of one job, jobs running, jobs waiting.
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

    `held` counts the devices held now; it changes in the transaction that takes or gives them back.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="quotas")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, blank=True)
    gpu_model = models.CharField(max_length=96, blank=True)
    guaranteed = models.PositiveIntegerField(default=0)
    borrow_limit = models.PositiveIntegerField(null=True, blank=True)
    lend_limit = models.PositiveIntegerField(null=True, blank=True)
    maximum = models.PositiveIntegerField(null=True, blank=True)
    held = models.PositiveIntegerField(default=0)

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
    """GPUs added to a quota from `valid_from` until right before `valid_until`. Never edited.

    Revoking is final and says who did it.
    """

    quota = models.ForeignKey(Quota, on_delete=models.CASCADE, related_name="grants")
    guaranteed = models.PositiveIntegerField(default=0)
    borrow_limit = models.PositiveIntegerField(default=0)
    maximum = models.PositiveIntegerField(default=0)
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


class Budget(models.Model):
    """GPU-seconds an account may use from `valid_from` until right before `valid_until`.

    A start commits its worst case; at its end that is released and what it really took is spent.
    """

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="budgets")
    gpu_seconds = models.PositiveBigIntegerField()
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField()
    committed_s = models.PositiveBigIntegerField(default=0)
    spent_s = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["account__depth", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(valid_from__lt=models.F("valid_until")),
                name="budget_begins_before_it_ends",
            ),
            # The databases agree on no unsigned type.
            models.CheckConstraint(
                condition=models.Q(committed_s__gte=0, spent_s__gte=0),
                name="budget_counts_from_zero",
            ),
        ]


class BudgetHold(models.Model):
    """What an attempt has committed of a budget, and once it has ended, what it spent of that."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="budget_holds")
    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="holds")
    gpu_seconds = models.PositiveBigIntegerField()
    spent_s = models.PositiveBigIntegerField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "budget"], name="budget_hold_once")
        ]


class PastUse(models.Model):
    """GPU-seconds that a person used for a team, decayed until `counted_until`."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    gpu_seconds = models.FloatField()
    counted_until = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="past_use_once")]


class SchedulingRule(models.Model):
    """The policy of scheduling from `created_at` on; the newest row is in force, none is edited.

    `name` is a shipped order: fair, fifo, shortest or las. Empty columns mean what is usual.
    """

    name = models.CharField(max_length=16)
    half_life_s = models.FloatField(null=True, blank=True)
    head_patience_s = models.FloatField(null=True, blank=True)
    placement = models.CharField(max_length=16, blank=True)
    preempts = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        ordering = ["-id"]
