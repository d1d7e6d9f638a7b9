"""Amounts of money in a spec: exact decimals in the currency of the books."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from scheduler.money import MOST_MONEY, PRICE_DECIMALS

_HELP = "write an amount such as 10 or 12.50"
_MAX_CHARS = 32


def price(value: object) -> Decimal | None:
    """A positive amount with at most the digits that prices have; empty for none."""
    if value is None or value == "":
        return None
    text = str(value).strip()
    try:
        # `Decimal` takes 1_000 and the digits of other scripts.
        is_plain = text.isascii() and "_" not in text
        if isinstance(value, bool) or len(text) > _MAX_CHARS or not is_plain:
            raise InvalidOperation
        amount = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"is not an amount of money; {_HELP}") from None
    if not amount.is_finite() or not 0 < amount <= MOST_MONEY:
        raise ValueError(f"must be above 0 and at most {MOST_MONEY}; {_HELP}")
    if amount != round(amount, PRICE_DECIMALS):
        raise ValueError(f"has more than {PRICE_DECIMALS} decimals; {_HELP}")
    return amount


def format_price(amount: Decimal) -> str:
    """With at least two decimals, such as 10.00, and no more than it needs."""
    short = format(amount.normalize(), "f")
    return f"{amount:.2f}" if len(short.partition(".")[2]) < 2 else short


Price = Annotated[
    Decimal | None,
    BeforeValidator(price),
    PlainSerializer(lambda value: value and format_price(value), return_type=str | None),
]
