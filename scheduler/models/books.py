"""The books: months, what was charged in them, and what is owed; entries are only ever added."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.ledger.entries import EntryKind
from scheduler.ledger.periods import PeriodState
from scheduler.models.attempts import Attempt
from scheduler.models.cluster import Pool
from scheduler.models.exact import ExactAmount

_PERSON = settings.AUTH_USER_MODEL


class Period(models.Model):
    """A month of the books, `2026-11`. `version` counts its closes; state moves by service.

    `charging`: showback (statements inform) or chargeback (they are issued). `claim`: drawn by the
    close that is under way; whoever holds another one writes no line and fixes nothing.
    `close_tried_at`: when the calendar last tried to close it.
    """

    name = models.CharField(max_length=7, unique=True)
    state = models.CharField(max_length=16, default=PeriodState.OPEN)
    version = models.PositiveIntegerField(default=0)
    currency = models.CharField(max_length=3)
    charging = models.CharField(max_length=10, default="showback")
    soft_closed_at = models.DateTimeField(null=True)
    reopen_proposed_by = models.ForeignKey(
        _PERSON, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    reopen_reason = models.CharField(max_length=255, blank=True)
    claim = models.CharField(max_length=32, blank=True)
    close_tried_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=[str(s) for s in PeriodState]),
                name="period_state_known",
            )
        ]

    def __str__(self) -> str:
        return self.name


class UsageLine(models.Model):
    """Seconds of an attempt (or of a share), UTC day, account, flavour, kind and rate, priced.

    Written while a month is being closed, never changed once it is. What the line costs is
    `amount`; the hours it was priced by follow from its seconds.
    """

    period = models.ForeignKey(
        Period, on_delete=models.PROTECT, related_name="lines", db_index=False
    )
    attempt = models.ForeignKey(
        Attempt, on_delete=models.PROTECT, null=True, related_name="lines", db_index=False
    )
    holder = models.CharField(max_length=32)
    day_s = models.BigIntegerField()
    account = models.CharField(max_length=64)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+", db_index=False)
    flavour = models.CharField(max_length=96)
    kind = models.CharField(max_length=16)
    rate = models.ForeignKey(
        "accounts.Rate", on_delete=models.PROTECT, related_name="+", db_index=False
    )
    unit_price = ExactAmount()
    gpu_seconds = models.BigIntegerField()
    amount = ExactAmount()

    class Meta:
        ordering = ["period_id", "id"]
        indexes = [
            models.Index(fields=["period", "id"], name="line_by_period"),
            models.Index(fields=["attempt"], name="line_by_attempt"),
        ]


class LedgerHead(models.Model):
    """Where the chain ends; the one row is locked by whoever posts."""

    number = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64)


class LedgerEntry(models.Model):
    """One posting; append-only. See `scheduler.ledger.entries.Entry` for what the fields mean."""

    number = models.PositiveBigIntegerField(unique=True)
    batch = models.CharField(max_length=64)
    kind = models.CharField(max_length=16, choices=[(str(k), str(k)) for k in EntryKind])
    period = models.ForeignKey(Period, on_delete=models.PROTECT, related_name="entries")
    service_period = models.ForeignKey(Period, on_delete=models.PROTECT, related_name="+")
    debit = models.CharField(max_length=64)
    credit = models.CharField(max_length=64)
    amount = ExactAmount()
    currency = models.CharField(max_length=3)
    sku = models.CharField(max_length=128, blank=True)
    rate = models.ForeignKey(
        "accounts.Rate", on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )
    unit_price = ExactAmount()
    gpu_seconds = models.BigIntegerField(default=0)
    lines = models.PositiveBigIntegerField(default=0)
    lines_digest = models.CharField(max_length=64, blank=True)
    reason = models.CharField(max_length=255, blank=True)
    created_by = models.CharField(max_length=150)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["number"]


class PeriodClose(models.Model):
    """What a close found and fixed; append-only. `seconds` by bucket, `findings` as remarks,
    `shares` how each pool's spare time was split, with the weights; `recovery` what each has cost.

    `control` is the control total in the currency's smallest unit, `head_*` the chain after it.
    `sealed`: totals by account and SKU, entries, SHA-256 of the statements; none in old closes.
    `gpu_memory_gib` of each model and `racks` by node, as files of the month say them; none in old
    closes.
    """

    period = models.ForeignKey(Period, on_delete=models.PROTECT, related_name="closes")
    version = models.PositiveIntegerField()
    closed_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    closed_at = models.DateTimeField()
    control = models.BigIntegerField()
    seconds = models.JSONField(default=dict)
    findings = models.JSONField(default=list)
    shares = models.JSONField(default=list)
    recovery = models.JSONField(default=list)
    lines = models.PositiveBigIntegerField()
    head_number = models.PositiveBigIntegerField()
    head_hash = models.CharField(max_length=64)
    sealed = models.JSONField(null=True)
    gpu_memory_gib = models.JSONField(null=True)
    racks = models.JSONField(null=True)

    class Meta:
        ordering = ["period_id", "version"]
        constraints = [
            models.UniqueConstraint(fields=["period", "version"], name="close_version_once")
        ]


class Statement(models.Model):
    """What one team (or the platform) owes for a month as of one close; numbered without gaps.

    `units` are of the currency's smallest coin; `rounding` is units less the exact sum.
    """

    number = models.PositiveBigIntegerField(unique=True)
    close = models.ForeignKey(PeriodClose, on_delete=models.PROTECT, related_name="statements")
    account = models.CharField(max_length=64)
    exact = ExactAmount()
    units = models.BigIntegerField()
    rounding = ExactAmount()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["close", "account"], name="statement_once_per_close")
        ]


class StatementLine(models.Model):
    """An entry's share of a statement, in the smallest coin."""

    statement = models.ForeignKey(Statement, on_delete=models.PROTECT, related_name="parts")
    entry = models.ForeignKey(LedgerEntry, on_delete=models.PROTECT, related_name="billed")
    units = models.BigIntegerField()

    class Meta:
        ordering = ["statement_id", "id"]
        constraints = [
            models.UniqueConstraint(fields=["statement", "entry"], name="entry_once_per_statement")
        ]


class Adjustment(models.Model):
    """An amount that a person owes a reason for: proposed by one, posted by another.

    Positive amounts are owed by the project, negative ones to it.
    """

    project = models.ForeignKey("accounts.Project", on_delete=models.PROTECT, related_name="+")
    amount = ExactAmount()
    currency = models.CharField(max_length=3)
    reason = models.CharField(max_length=255)
    proposed_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    proposed_at = models.DateTimeField()
    decided_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    entry = models.OneToOneField(
        LedgerEntry, on_delete=models.PROTECT, null=True, related_name="adjustment"
    )

    class Meta:
        ordering = ["-id"]
