"""Who pays for what nobody used, by pool and from which month; and what was guaranteed when."""

from __future__ import annotations

from typing import Protocol

from django.conf import settings
from django.db import models

from scheduler.ledger.shares import IdlePolicy
from scheduler.models.cluster import Pool

_PERSON = settings.AUTH_USER_MODEL
POLICY_WORDS = {
    IdlePolicy.NONE: "nobody: the cluster bears it",
    IdlePolicy.EVEN: "all who ran, alike",
    IdlePolicy.BY_USE: "by GPU time used",
    IdlePolicy.BY_GUARANTEE: "by GPUs guaranteed",
    IdlePolicy.HYBRID: "partly by guarantee, the rest by use",
}


def words_of(policy: str, percent: int) -> str:
    """A policy as pages say it, with the part that goes by guarantee where only a part does."""
    words = POLICY_WORDS[IdlePolicy(policy)]
    return f"{words} ({percent} %)" if policy == IdlePolicy.HYBRID else words


class _Policies(Protocol):
    """Terms, as a row or as figures."""

    @property
    def idle(self) -> str: ...
    @property
    def platform(self) -> str: ...
    @property
    def guarantee_percent(self) -> int: ...


class PoliciesInWords:
    """What terms say in words, be they a row or figures."""

    __slots__ = ()

    @property
    def idle_words(self: _Policies) -> str:
        """Who pays for idle time, as pages say it."""
        return words_of(self.idle, self.guarantee_percent)

    @property
    def platform_words(self: _Policies) -> str:
        """Who pays for drained, broken and silent time, as pages say it."""
        return words_of(self.platform, self.guarantee_percent)


_POLICIES = [(str(policy), POLICY_WORDS[policy]) for policy in IdlePolicy]


class TermsDecision(models.TextChoices):
    """Only approved terms count."""

    PROPOSED = "proposed", "Proposed"
    APPROVED = "approved", "Approved"
    DECLINED = "declined", "Declined"


class Recovery(models.TextChoices):
    """Whether teams pay price times time, or what the pool has cost."""

    RATES = "rates", "By rates"
    COST = "cost", "By cost"


class Unreachable(models.TextChoices):
    """Who pays while a node is silent and its GPUs are still held."""

    PLATFORM = "platform", "The cluster"
    TEAM = "team", "The team that holds it"


class PoolTerms(PoliciesInWords, models.Model):
    """Terms of a pool from a month (`2026-11`) on; the newest approved row for a month holds.

    `idle` says who is charged for time nobody used, `platform` for drained and broken time;
    `guarantee_percent` is for the policy hybrid. `refund_s`: seconds before a preemption, since the
    last checkpoint, that are credited; 0 none. `unreachable` says who pays for held time of nodes
    that are not heard. Rows are decided once and never edited.
    """

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="terms")
    from_month = models.CharField(max_length=7)
    idle = models.CharField(max_length=16, choices=_POLICIES, default=IdlePolicy.NONE)
    platform = models.CharField(max_length=16, choices=_POLICIES, default=IdlePolicy.NONE)
    guarantee_percent = models.PositiveSmallIntegerField(default=50)
    refund_s = models.PositiveIntegerField(default=0)
    recovery = models.CharField(max_length=8, choices=Recovery.choices, default=Recovery.RATES)
    unreachable = models.CharField(
        max_length=8, choices=Unreachable.choices, default=Unreachable.PLATFORM
    )
    reason = models.CharField(max_length=255, blank=True)
    decision = models.CharField(
        max_length=16, choices=TermsDecision.choices, default=TermsDecision.PROPOSED
    )
    proposed_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    proposed_at = models.DateTimeField()
    decided_by = models.ForeignKey(_PERSON, on_delete=models.SET_NULL, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(guarantee_percent__lte=100), name="terms_percent_up_to_100"
            )
        ]

    def __str__(self) -> str:
        return f"{self.pool}: idle {self.idle}, platform {self.platform}"


class GuaranteeSpan(models.Model):
    """GPUs a team was guaranteed from one second until right before another; open without end.

    Kept beside quotas and grants, which change and go, so that a month can be rated again. Rows
    are only added and ended. `grant` is the number of the grant it comes from, else empty.
    """

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, null=True, related_name="+")
    flavour = models.CharField(max_length=96, blank=True)
    gpus = models.PositiveIntegerField()
    from_s = models.BigIntegerField()
    until_s = models.BigIntegerField(null=True)
    quota = models.BigIntegerField()
    grant = models.BigIntegerField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["until_s"], name="guarantee_by_end")]
        constraints = [
            models.UniqueConstraint(
                fields=["quota"],
                condition=models.Q(until_s__isnull=True, grant__isnull=True),
                name="one_open_guarantee_per_quota",
            )
        ]
