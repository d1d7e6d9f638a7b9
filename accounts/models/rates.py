"""Rate cards: what a GPU-hour costs, for whom, by device model, from when until when."""

from __future__ import annotations

from decimal import Decimal

from django.conf import settings
from django.db import models
from django.db.models.functions import Coalesce

from accounts.models.teams import Team


class RateDecision(models.TextChoices):
    """Only approved rates price anything; drafts wait for their card to be proposed."""

    DRAFT = "draft", "Draft"
    PROPOSED = "proposed", "Proposed"
    APPROVED = "approved", "Approved"
    DECLINED = "declined", "Declined"


class RateKind(models.TextChoices):
    """What of a device's time a rate is for; the general one covers whatever a job holds."""

    GENERAL = "", "any time a job holds"
    BORROWED = "run-borrowed", "running above the team's guarantee"
    OVERHEAD = "overhead", "starting, stopping and cleaning up"
    UNREACHABLE = "unreachable", "held by a node that is not heard"
    RESERVED_IDLE = "reserved-idle", "reserved and not used"
    IDLE_SHARE = "idle-share", "share of a pool's idle time"
    PLATFORM_SHARE = "platform-share", "share of drained and broken time"


class RateCard(models.Model):
    """Rates of one list: the organisation's (`team` is null), or one team's and those below it.

    It lives in `[valid_from, valid_until)`, from its first rate on and for ever where these are
    null. Its rates count once a second person has approved it.
    """

    name = models.CharField(max_length=64)
    currency = models.CharField(max_length=3)
    team = models.ForeignKey(
        Team, on_delete=models.PROTECT, null=True, blank=True, related_name="rate_cards"
    )
    decision = models.CharField(
        max_length=16, choices=RateDecision.choices, default=RateDecision.DRAFT
    )
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True)
    proposed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["team__slug", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(valid_from__isnull=True)
                | models.Q(valid_until__isnull=True)
                | models.Q(valid_from__lt=models.F("valid_until")),
                name="rate_card_ends_after_it_begins",
            ),
            # One list, so that whoever asks for it finds one.
            models.UniqueConstraint(
                fields=["currency"],
                condition=models.Q(team__isnull=True),
                name="one_list_of_rates",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Rate(models.Model):
    """Price of one GPU-hour of `device_model` in `[valid_from, valid_until)`.

    The empty model is the fallback for devices that have no row of their own. Rows are never
    edited, but for their end, which the next row of the card, model, kind and priority sets as
    well. Of approved rows that hold at one moment the one of the higher priority counts, then the
    one that begins later, then the one that was decided later (a restatement). `decided_by` is
    another person than `proposed_by`, except where only one person keeps the books. A row without
    a card is on the organisation's list.
    """

    card = models.ForeignKey(
        RateCard, on_delete=models.PROTECT, null=True, blank=True, related_name="rates"
    )
    device_model = models.CharField(max_length=96, blank=True)
    kind = models.CharField(
        max_length=16, choices=RateKind.choices, default=RateKind.GENERAL, blank=True
    )
    decision = models.CharField(
        max_length=16, choices=RateDecision.choices, default=RateDecision.APPROVED
    )
    is_restatement = models.BooleanField(default=False)
    reason = models.CharField(max_length=255, blank=True)
    proposed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    price_per_gpu_hour = models.DecimalField(max_digits=18, decimal_places=6)
    currency = models.CharField(max_length=3, default="EUR")
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True, blank=True)
    priority = models.SmallIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["device_model", "-valid_from"]
        # On PostgreSQL `rate_without_overlap` excludes what overlaps beside restatements.
        constraints = [
            models.UniqueConstraint(
                Coalesce("card", 0),
                "device_model",
                "kind",
                "priority",
                "valid_from",
                condition=models.Q(is_restatement=False) & ~models.Q(decision="declined"),
                name="rate_once_per_model_and_time",
            ),
            models.CheckConstraint(
                condition=models.Q(price_per_gpu_hour__gte=Decimal(0)),
                name="rate_not_negative",
            ),
            models.CheckConstraint(
                condition=models.Q(valid_until__isnull=True)
                | models.Q(valid_from__lt=models.F("valid_until")),
                name="rate_ends_after_it_begins",
            ),
        ]

    def __str__(self) -> str:
        price = self.price_per_gpu_hour.normalize()
        # Cents at least, and as many decimals as it was set with: as asked for and as read alike.
        places = max(2, -int(price.as_tuple().exponent))
        return f"{self.device_model or 'any device'}: {price:.{places}f} {self.currency}/h"


class RateEnding(models.Model):
    """A proposal to end one price, or all prices of a team's card; a second person approves it.

    It ends at `ends_at`, or the moment it is approved where that is null. `outcome` says what is
    paid from then on, as known when it was proposed and then when it was decided on.
    """

    rate = models.ForeignKey(
        Rate, on_delete=models.CASCADE, null=True, blank=True, related_name="endings"
    )
    card = models.ForeignKey(
        RateCard, on_delete=models.CASCADE, null=True, blank=True, related_name="endings"
    )
    ends_at = models.DateTimeField(null=True, blank=True)
    outcome = models.TextField(max_length=2000, blank=True)
    decision = models.CharField(
        max_length=16, choices=RateDecision.choices, default=RateDecision.PROPOSED
    )
    proposed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(rate__isnull=True, card__isnull=False)
                | models.Q(rate__isnull=False, card__isnull=True),
                name="rate_ending_of_one_thing",
            ),
            models.UniqueConstraint(
                fields=["rate"],
                condition=models.Q(decision="proposed"),
                name="rate_ending_proposed_once",
            ),
            models.UniqueConstraint(
                fields=["card"],
                condition=models.Q(decision="proposed"),
                name="card_ending_proposed_once",
            ),
        ]

    def __str__(self) -> str:
        return f"the end of {self.rate or self.card}"
