"""What a line's time costs on the organisation's list, where its team pays another price."""

from __future__ import annotations

from decimal import Decimal

from scheduler.ledger.exact import times
from scheduler.ledger.focus.facts import Row
from scheduler.ledger.focus.rows import plain_text
from scheduler.ledger.rating import UsageLine


def by_the_list(line: UsageLine, price: Decimal | None, card: str) -> Row:
    """What goes over a line's row: the card of its rate, and the list's price where that differs.

    `price` is None where the list has none: then there is no list price, and the cost is as it was
    billed.
    """
    row: Row = {"x_RateCardId": card or None}
    if price is None:
        return row | {"ListUnitPrice": None}
    if price == line.unit_price:
        return row
    cost = times(line.gpu_hours, price)
    return row | {"ListCost": plain_text(cost), "ListUnitPrice": plain_text(price)}
