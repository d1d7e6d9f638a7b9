"""What the list asks for the lines of a month, as an export says it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from accounts.models import Rate, RateCard
from accounts.selectors.rates import approved_rates
from scheduler.ledger.focus.facts import Row
from scheduler.ledger.focus.listing import by_the_list
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import PriceList, UsageLine
from scheduler.selectors.books.prices.rates import price_of


@dataclass(frozen=True, slots=True)
class Listings:
    """The list's prices, and by rate the card of a team; the list's own card for all others."""

    start_s: int
    prices: PriceList
    cards: dict[str, str]
    of_list: str

    def of(self, line: UsageLine) -> Row:
        """A rate of the list is its own list price; a team's is compared with what the list asks at
        the line's first moment."""
        card = self.cards.get(line.rate_id)
        if card is None:
            return by_the_list(line, line.unit_price, self.of_list)
        price = self.prices.at(line.flavour, line.kind, max(line.day_s, self.start_s))
        return by_the_list(line, price.per_gpu_hour if price else None, card)


def listings_of(month: Month, *, as_of: datetime) -> Listings:
    """The list as it had been decided on at a moment, so that an export stays the same. Three
    queries."""
    rates = approved_rates().filter(Q(card=None) | Q(card__team=None))
    known = rates.filter(Q(decided_at=None) | Q(decided_at__lte=as_of))
    of_teams = Rate.objects.filter(card__team__isnull=False).values_list("pk", "card")
    of_list = RateCard.objects.filter(team=None).order_by("pk").first()
    return Listings(
        start_s=month.start_s,
        prices=PriceList(price_of(rate) for rate in known),
        cards={str(rate): f"card:{card}" for rate, card in of_teams},
        of_list=f"card:{of_list.pk}" if of_list else "",
    )
