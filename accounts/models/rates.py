"""What a GPU-hour costs, by device model and from when on."""

from __future__ import annotations

from decimal import Decimal

from django.db import models


class Rate(models.Model):
    """Price of one GPU-hour of `device_model` from `valid_from` until the next row.

    The empty model is the fallback for devices that have no row of their own.
    """

    device_model = models.CharField(max_length=96, blank=True)
    price_per_gpu_hour = models.DecimalField(max_digits=12, decimal_places=4)
    currency = models.CharField(max_length=3, default="EUR")
    valid_from = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["device_model", "-valid_from"]
        constraints = [
            models.UniqueConstraint(
                fields=["device_model", "valid_from"], name="rate_once_per_model_and_time"
            ),
            models.CheckConstraint(
                condition=models.Q(price_per_gpu_hour__gte=Decimal(0)),
                name="rate_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.device_model or 'any device'}: {self.price_per_gpu_hour} {self.currency}/h"
