"""Prices."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.errors import Forbidden, Invalid
from accounts.models import Rate, User
from accounts.permissions import can

_MAX_PRICE = Decimal(100_000)
_MAX_MODEL = 96


def set_rate(
    *,
    actor: User,
    device_model: str,
    price_per_gpu_hour: Decimal,
    currency: str = "EUR",
    valid_from: datetime | None = None,
) -> Rate:
    """A price from `valid_from` on; what was charged before keeps its own price."""
    if not can(actor, "administer", None):
        raise Forbidden("Only administrators set prices.")
    price = price_per_gpu_hour
    if not price.is_finite() or not 0 <= price <= _MAX_PRICE:
        raise Invalid(f"Give a price from 0 to {_MAX_PRICE}.", field="price_per_gpu_hour")
    if price != price.quantize(Decimal("0.0001")):
        raise Invalid("Use at most 4 decimals.", field="price_per_gpu_hour")
    if not re.fullmatch(r"[A-Z]{3}", currency):
        raise Invalid("Use a three-letter currency code such as EUR.", field="currency")
    model = device_model.strip()
    if len(model) > _MAX_MODEL or not model.isprintable():
        raise Invalid(
            f"Write the model in one line of at most {_MAX_MODEL} characters.",
            field="device_model",
        )
    try:
        with transaction.atomic():
            return Rate.objects.create(
                device_model=model,
                price_per_gpu_hour=price,
                currency=currency,
                valid_from=valid_from or timezone.now(),
            )
    except IntegrityError:
        raise Invalid("There is a price from that moment on already.", field="valid_from") from None
