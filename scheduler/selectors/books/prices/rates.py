"""Rates as the ledger counts with them."""

from __future__ import annotations

import math

from accounts.models import Rate
from scheduler.ledger.entries import team_account
from scheduler.ledger.rating import Price


def price_of(rate: Rate) -> Price:
    """With its card; what begins or ends within a second does so with the next one."""
    until, card = rate.valid_until, rate.card
    return Price(
        id=str(rate.pk),
        flavour=rate.device_model,
        kind=rate.kind,
        per_gpu_hour=rate.price_per_gpu_hour,
        currency=rate.currency,
        from_s=math.ceil(rate.valid_from.timestamp()),
        until_s=None if until is None else math.ceil(until.timestamp()),
        priority=rate.priority,
        team=team_account(str(card.team_id)) if card and card.team_id else "",
        card=str(card.pk) if card else "",
    )
