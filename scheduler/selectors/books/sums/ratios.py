"""What one figure is of another, in a row and in sums: a share of it, or so much for each."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from scheduler.selectors.books.frame import Cell, Column

_HUNDREDTH, _MILLIONTH = Decimal("0.01"), Decimal("0.000001")


def share(part: Cell, whole: Cell) -> Decimal | None:
    """Per cent, two places; None of nothing."""
    return _ratio(part, whole, 100, _HUNDREDTH)


def mean(amount: Cell, count: Cell) -> Decimal | None:
    """So much for each, six places; None where there is none."""
    return _ratio(amount, count, 1, _MILLIONTH)


def sum_under(column: Column, sums: Mapping[str, Cell]) -> Cell:
    """What stands under a column: its sum, or what one sum is of another; None where it has
    neither."""
    if column.share_of is not None:
        part, whole = column.share_of
        return share(sums.get(part), sums.get(whole))
    if column.mean_of is not None:
        amount, count = column.mean_of
        return mean(sums.get(amount), sums.get(count))
    return sums.get(column.name)


def _ratio(part: Cell, whole: Cell, times: int, places: Decimal) -> Decimal | None:
    if not isinstance(part, int | Decimal) or not isinstance(whole, int | Decimal) or not whole:
        return None
    return (Decimal(part) * times / Decimal(whole)).quantize(places)
