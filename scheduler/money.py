"""Seconds and prices, exact. Pure: used by the rows that are charged and by what is shown live."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

_HOUR = timedelta(hours=1)
_EXACT = Decimal("0.0000000001")
# Prices have four decimals and hours 3600 seconds: whatever seconds cost is a whole number of
# such steps of one unit of currency. Counters of money are kept in them.
PRICE_DECIMALS = 4
STEPS = 3600 * 10**PRICE_DECIMALS


def cost_of(gpu_seconds: int, price_per_gpu_hour: Decimal) -> Decimal:
    """gpu_seconds x price / 3600, to ten decimals."""
    return (gpu_seconds * price_per_gpu_hour / 3600).quantize(_EXACT)


def whole_second(moment: datetime) -> datetime:
    """The second a moment lies in."""
    return moment.replace(microsecond=0)


def seconds_between(start: datetime, end: datetime) -> int:
    """Whole charged seconds of a period; never negative."""
    return max(0, int((whole_second(end) - whole_second(start)).total_seconds()))


def split_by_hour(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The periods of `[start, end)`, cut to whole seconds and at full hours."""
    start, end = whole_second(start), whole_second(end)
    while start < end:
        boundary = start.replace(minute=0, second=0) + _HOUR
        yield start, min(boundary, end)
        start = min(boundary, end)


def steps_of(amount: Decimal) -> int:
    """An amount of currency in steps; raises ValueError for more than four decimals."""
    steps = amount * STEPS
    if steps != int(steps) or amount != round(amount, PRICE_DECIMALS):
        raise ValueError(f"{amount} has more than {PRICE_DECIMALS} decimals")
    return int(steps)


def steps_per_s(price_per_gpu_hour: Decimal) -> int:
    """What one second of a GPU costs, in steps; exact."""
    return int(price_per_gpu_hour.scaleb(PRICE_DECIMALS))


def from_steps(steps: int) -> Decimal:
    """Steps as an amount of currency, to ten decimals."""
    amount: Decimal = Decimal(steps) / STEPS
    return amount.quantize(_EXACT)
