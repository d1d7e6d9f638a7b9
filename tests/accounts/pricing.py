"""Prices that hold, for tests of them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from accounts.selectors.rates import rate_at
from accounts.services import approve_rate, propose_rate

HOUR = timedelta(hours=1)


def held(root, clerk, price, begin, **more):
    """An approved rate of H100."""
    rate = propose_rate(
        actor=clerk,
        device_model=more.pop("model", "H100"),
        price_per_gpu_hour=Decimal(price),
        valid_from=begin,
        **more,
    )
    return approve_rate(actor=root, rate=rate)


def prices(begin, *hours, team=None):
    found = (rate_at("H100", begin + hour * HOUR, team) for hour in hours)
    return [rate and int(rate.price_per_gpu_hour) for rate in found]
