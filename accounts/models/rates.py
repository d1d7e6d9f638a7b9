"""What a GPU-hour costs, by device model and from when on."""

from __future__ import annotations

from decimal import Decimal

from django.conf import settings
from django.db import models


class RateDecision(models.TextChoices):
    """Only approved rates price anything."""

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


class Rate(models.Model):
    """Price of one GPU-hour of `device_model` from `valid_from` until the next row.

    The empty model is the fallback for devices that have no row of their own. Rows are never
    edited: a later row ends an earlier one, and of two approved rows for one moment the one that
    came later (a restatement) holds. `decided_by` is another person than `proposed_by`, except
    where only one person keeps the books.
    """

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
    price_per_gpu_hour = models.DecimalField(max_digits=12, decimal_places=4)
    currency = models.CharField(max_length=3, default="EUR")
    valid_from = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["device_model", "-valid_from"]
        constraints = [
            models.UniqueConstraint(
                fields=["device_model", "kind", "valid_from"],
                condition=models.Q(is_restatement=False) & ~models.Q(decision="declined"),
                name="rate_once_per_model_and_time",
            ),
            models.CheckConstraint(
                condition=models.Q(price_per_gpu_hour__gte=Decimal(0)),
                name="rate_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.device_model or 'any device'}: {self.price_per_gpu_hour} {self.currency}/h"
