"""A budget's figures as they are printed beside each other, in agreement to the last digit."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from scheduler.ledger.shares import rounded
from scheduler.models import Budget
from scheduler.money import STEPS
from scheduler.selectors.sharing.reckoning import Standing
from scheduler.states import hour_places

_S_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Printed:
    """A budget's figures in units of the last digit that is printed of them: what is beyond the
    limit is the difference of what stands beside it.

    `places`: decimals; two where it is money.
    """

    budget: Budget
    places: int

    @property
    def unit(self) -> str:
        """GPU-hours, or its currency."""
        return self.budget.currency if self.budget.is_money else "GPU-hours"

    def units(self, figure: int) -> int:
        """A figure in the budget's measure, halves away from zero."""
        size = STEPS if self.budget.is_money else _S_PER_HOUR
        return rounded(Fraction(figure * 10**self.places, size))

    def beyond(self, *figures: int) -> int:
        """How far these figures together are beyond the limit, in units; 0 for not."""
        return max(0, sum(map(self.units, figures)) - self.units(self.budget.limit))

    def text(self, units: int) -> str:
        """Units as people read them."""
        return f"{Decimal(units).scaleb(-self.places):,.{self.places}f}"

    def over_words(self, standing: Standing) -> str:
        """`0.67 EUR over, 3.90 with what is committed`, or the one that is; empty where neither is.

        Over is what is used, as `% used` and alerts go by it; the worst case is said as such.
        """
        over, worst = self.beyond(standing.used), self.beyond(standing.used, standing.kept)
        if not worst:
            return ""
        if worst == over:
            return f"{self.text(over)} {self.unit} over"
        if not over:
            return f"{self.text(worst)} {self.unit} over with what is committed"
        return f"{self.text(over)} {self.unit} over, {self.text(worst)} with what is committed"


def printed_of(budget: Budget, standing: Standing) -> Printed:
    """Money to the cent; hours with as many decimals as the smallest of these figures takes, two at
    most: beside a limit of whole hours three would read as thousands."""
    if budget.is_money:
        return Printed(budget, 2)
    figures = (budget.limit, standing.used, standing.kept)
    return Printed(budget, min(2, hour_places(figures)))
