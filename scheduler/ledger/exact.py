"""Decimal arithmetic that cannot round: what does not fit is an error, not a smaller number."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, Inexact, InvalidOperation

# Amounts have 38 digits, 15 of them behind the point; sums of a million of them still fit.
AMOUNT_PLACES = 15
HOUR_PLACES = 9
PRICE_PLACES = 6
EXACT = Context(prec=60, traps=[Inexact, InvalidOperation, DivisionByZero])
_ROUNDING = Context(prec=60, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation])
_HOUR_S = 3600
_NANO = 10**HOUR_PLACES
_STEP = Decimal(1).scaleb(-AMOUNT_PLACES)
ZERO = Decimal(0)


def gpu_hours(gpu_seconds: int) -> Decimal:
    """gpu_seconds / 3600 to nine places, half to even; works for negative seconds too."""
    whole, rest = divmod(gpu_seconds * _NANO, _HOUR_S)
    if 2 * rest > _HOUR_S or (2 * rest == _HOUR_S and whole % 2):
        whole += 1
    return Decimal(whole).scaleb(-HOUR_PLACES, EXACT)


def times(hours: Decimal, price: Decimal) -> Decimal:
    """Their exact product; hours of nine and prices of six places give fifteen."""
    return EXACT.multiply(hours, price)


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Their exact sum."""
    result = ZERO
    for amount in amounts:
        result = EXACT.add(result, amount)
    return result


def checked_price(price: Decimal, what: str) -> Decimal:
    """The price as given; raises ValueError unless it is finite, not negative, of six places."""
    if not price.is_finite() or price < 0:
        raise ValueError(f"{what}: a price is a number from 0 up, not {price}")
    exponent = price.normalize(EXACT).as_tuple().exponent
    if isinstance(exponent, int) and exponent < -PRICE_PLACES:
        raise ValueError(f"{what}: {price} has more than {PRICE_PLACES} decimals")
    return price


def plain(amount: Decimal) -> str:
    """An amount as stored and hashed: fifteen places, no exponent, never `-0`.

    Raises decimal.Inexact for more places: such an amount must not have come about.
    """
    return format(amount.quantize(_STEP, context=EXACT) + ZERO, "f")


def half_even(amount: Decimal, places: int) -> int:
    """The amount in units of 10**-places, rounded half to even, as an integer."""
    scaled = amount.scaleb(places, EXACT)
    return int(scaled.to_integral_value(context=_ROUNDING))
