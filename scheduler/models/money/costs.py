"""What pools cost: assets that are written off, and other costs of a month."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.books import LedgerEntry
from scheduler.models.cluster import Pool
from scheduler.models.exact import ExactAmount
from scheduler.models.money.terms import TermsDecision

_PERSON = settings.AUTH_USER_MODEL


class _Decided(models.Model):
    """Proposed by one person, decided by another; only what is approved counts."""

    decision = models.CharField(
        max_length=16, choices=TermsDecision.choices, default=TermsDecision.PROPOSED
    )
    proposed_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    proposed_at = models.DateTimeField()
    decided_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class Asset(_Decided):
    """Something bought for a pool, written off by the day in the currency of the books.

    `paid` is what was paid in `paid_currency`; `cost` is that at `fx_rate`, fixed when it was
    booked, from `fx_source`. Retired early, what is left goes to the cluster's own account;
    `retire_on` is the day proposed, `retired_on` the day two people agreed on.
    """

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="assets")
    name = models.CharField(max_length=128)
    cost = ExactAmount()
    residual = ExactAmount()
    currency = models.CharField(max_length=3)
    paid = ExactAmount()
    paid_currency = models.CharField(max_length=3)
    fx_rate = ExactAmount()
    fx_source = models.CharField(max_length=128, blank=True)
    since = models.DateField()
    months = models.PositiveSmallIntegerField()
    retire_on = models.DateField(null=True)
    retire_proposed_by = models.ForeignKey(
        _PERSON, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    retired_on = models.DateField(null=True)
    retired_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    retired_reason = models.CharField(max_length=255, blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.name


class CostKind(models.TextChoices):
    """What a cost is for."""

    ENERGY = "energy", "Energy"
    STAFF = "staff", "Staff"
    OTHER = "other", "Other"


class PoolCost(_Decided):
    """A cost of a pool in a month, beside its assets; negative ones take back. `entry` books it."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="costs")
    month = models.CharField(max_length=7)
    kind = models.CharField(max_length=8, choices=CostKind.choices)
    amount = ExactAmount()
    currency = models.CharField(max_length=3)
    note = models.CharField(max_length=255)
    entry = models.OneToOneField(
        LedgerEntry, on_delete=models.PROTECT, null=True, related_name="pool_cost"
    )

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} of {self.pool} in {self.month}"
