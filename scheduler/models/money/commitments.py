"""What jobs and attempts have committed of budgets, and the alerts of these."""

from __future__ import annotations

from django.db import models

from scheduler.models.attempts import Attempt
from scheduler.models.jobs import Job
from scheduler.models.sharing import Budget, Threshold


class Commitment(models.Model):
    """What is kept of a budget for the worst case of a job, until it is known what it takes.

    `money` in steps, 0 for a budget in GPU-seconds. `whole_money`: what the whole time limit would
    take, of a job whose highest price keeps `money` below that; None where it is the same.
    """

    gpu_seconds = models.PositiveBigIntegerField()
    money = models.PositiveBigIntegerField(default=0)
    whole_money = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        abstract = True

    @property
    def worst_money(self) -> int:
        """What the whole time limit takes."""
        return self.money if self.whole_money is None else self.whole_money

    def keep_at_most(self, most: int | None) -> None:
        """Of what the whole time limit takes keep no more money than this; None for all of it."""
        whole = self.worst_money
        if most is None or most >= whole:
            self.money, self.whole_money = whole, None
        else:
            self.money, self.whole_money = most, whole


class BudgetPledge(Commitment):
    """What a waiting job has committed of a budget that commits at the submit.

    It becomes the hold of the attempt when the job starts, and is gone when it waits no more.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="budget_pledges")
    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="pledges")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "budget"], name="budget_pledge_once")]


class BudgetHold(Commitment):
    """What an attempt has committed of a budget, and once it has ended, what it spent of that."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="budget_holds")
    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="holds")
    spent_s = models.PositiveBigIntegerField(null=True, blank=True)
    spent_money = models.PositiveBigIntegerField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["attempt", "budget"], name="budget_hold_once")
        ]


class BudgetAlert(models.Model):
    """A threshold that a version of a budget has reached: once, however often it is looked at.

    `used` is in the budget's own measure; `told_at`: when people were told.
    """

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="alerts")
    version = models.PositiveIntegerField()
    threshold = models.CharField(max_length=16, choices=Threshold.choices)
    used = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    told_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "version", "threshold"], name="budget_alert_once"
            )
        ]
