"""When a budget's count was held against the ledger, and what it was moved by."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from scheduler.models.sharing import Budget


class BudgetTrueUp(models.Model):
    """One comparison of what a budget counts as spent with what the ledger says; only added.

    Figures are in the budget's own measure: GPU-seconds, or steps of money. What is spent is at any
    time the sum of `difference` over these rows plus what its settled holds spent.
    `is_opening`: not a comparison but what the budget began with. `until_s`: the second up to which
    use was counted, `head_number` the last ledger entry that was. `before`: what was spent before,
    `ledger`: what the ledger says of all that has ended (empty in an opening), `settled`: what
    holds that were settled when the count began had spent. `rated`: by month that was not closed,
    `[gpu_seconds, amount]` of `ledger` that is not posted yet, amounts as texts; as `running`,
    below 0, what is posted of attempts that still counted by their holds. `unpriced`: what no
    price is known for and is therefore in no amount, `[flavour, kind, first day, gpu_seconds]`.
    """

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="true_ups")
    is_opening = models.BooleanField(default=False)
    at = models.DateTimeField()
    until_s = models.BigIntegerField()
    head_number = models.PositiveBigIntegerField(default=0)
    before = models.PositiveBigIntegerField(default=0)
    ledger = models.BigIntegerField(null=True)
    difference = models.BigIntegerField()
    settled = models.PositiveBigIntegerField(default=0)
    rated = models.JSONField(default=dict)
    unpriced = models.JSONField(default=list)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "until_s"],
                condition=Q(is_opening=False),
                name="budget_true_up_once",
            ),
            models.UniqueConstraint(
                fields=["budget"], condition=Q(is_opening=True), name="budget_opening_once"
            ),
            models.CheckConstraint(
                condition=Q(is_opening=True) ^ Q(ledger__isnull=False),
                name="budget_true_up_names_the_ledger",
            ),
        ]
