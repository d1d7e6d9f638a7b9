"""What a GPU-second may cost at most, as far as it is known now: what worst cases are priced by."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from accounts.selectors import rates_over
from scheduler.conf import load_conf
from scheduler.money import steps_per_s

# Prices that begin later are not looked at: few jobs run longer.
AHEAD = timedelta(days=31)


def dearest_steps(models: Iterable[str], *, now: datetime) -> dict[str, int | None]:
    """By model: steps of money per GPU-second; None without a price in the currency of the books.

    One query. The highest price that is known to hold within a month counts, so that one who
    starts before it rises has committed enough.
    """
    asked, currency = set(models), load_conf().currency
    table = rates_over(asked)
    found: dict[str, int | None] = {}
    for model in asked:
        rate = table.dearest(model, now, now + AHEAD)
        is_ours = rate is not None and rate.currency == currency
        found[model] = steps_per_s(rate.price_per_gpu_hour) if rate and is_ours else None
    return found
