"""Seconds and prices, exact. Pure: used by the rows that are charged and by what is shown live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal

_HOUR = timedelta(hours=1)
_EXACT = Decimal("0.0000000001")
# Prices have six decimals and hours 3600 seconds: whatever seconds cost is a whole number of
# such steps of one unit of currency. Counters of money are kept in them.
PRICE_DECIMALS = 6
STEPS = 3600 * 10**PRICE_DECIMALS
# Of one budget, in units of currency: two and a half times that is all that 64 bits hold in steps.
MOST_MONEY = Decimal(10**9)
# Steps of one counter: two of them are what 64 bits hold. And of what is taken at once.
MOST_COUNTED, MOST_AT_ONCE = 2**62 - 1, 2**61
# The ledger rounds the hours of a line to nine places, a counter none: an amount of the books that
# lies less than this beside what was counted is the same.
SAME_STEPS = 100


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
    """An amount of currency in steps; raises ValueError for more than six decimals."""
    steps = amount * STEPS
    if steps != int(steps) or amount != round(amount, PRICE_DECIMALS):
        raise ValueError(f"{amount} has more than {PRICE_DECIMALS} decimals")
    return int(steps)


def steps_per_s(price_per_gpu_hour: Decimal) -> int:
    """What one second of a GPU costs, in steps: price / 3600 x STEPS, which is the price in
    millionths. Raises ValueError for more than six decimals: nothing is cut off."""
    steps = price_per_gpu_hour.scaleb(PRICE_DECIMALS)
    if steps != int(steps):
        raise ValueError(f"{price_per_gpu_hour} has more than {PRICE_DECIMALS} decimals")
    return int(steps)


def steps_of_cost(cost: Decimal) -> int:
    """Steps of what `cost_of` gave: ten decimals tell one step from the next, so none is lost."""
    return int((cost * STEPS).to_integral_value())


def from_steps(steps: int) -> Decimal:
    """Steps as an amount of currency, to ten decimals."""
    amount: Decimal = Decimal(steps) / STEPS
    return amount.quantize(_EXACT)


def seconds_paid(
    steps: int, start: datetime, most_s: int, price_at: Callable[[datetime], int]
) -> int:
    """For how many whole seconds from `start` so many steps pay, `most_s` at most.

    `price_at` says what one second costs from a moment to the end of its hour, in steps, as rows
    of usage are priced.
    """
    paid_s = 0
    for begin, until in split_by_hour(start, start + timedelta(seconds=most_s)):
        price, span_s = price_at(begin), seconds_between(begin, until)
        if price * span_s > steps:
            return paid_s + max(0, steps) // price
        steps -= price * span_s
        paid_s += span_s
    return most_s
