"""What one team pays for a GPU-hour now and next, beside what the list asks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from accounts.models import Rate, RateKind, Team, User
from accounts.selectors.rates import approved_rates, get_priced_team
from accounts.trees import ways_up
from scheduler.ledger.entries import team_account
from scheduler.ledger.rating import ChargeKind, Price, PriceList
from scheduler.selectors.books.prices.rates import price_of

# How far ahead the next change is looked for.
_AHEAD = timedelta(days=3660)
_KINDS = {
    ChargeKind.RUN: RateKind.GENERAL,
    ChargeKind.RUN_BORROWED: RateKind.BORROWED,
    ChargeKind.OVERHEAD: RateKind.OVERHEAD,
    ChargeKind.UNREACHABLE: RateKind.UNREACHABLE,
    ChargeKind.RESERVED_IDLE: RateKind.RESERVED_IDLE,
    ChargeKind.IDLE_SHARE: RateKind.IDLE_SHARE,
    ChargeKind.PLATFORM_SHARE: RateKind.PLATFORM_SHARE,
}


@dataclass(frozen=True, slots=True)
class PaidPrice:
    """Of one model (empty: any other) and kind. `rate` is what the team pays by now, None for no
    price; `listed` what the list asks per GPU-hour; at `changes_at` it becomes `next_price`."""

    model: str
    kind: RateKind
    rate: Rate | None
    listed: Decimal | None
    changes_at: datetime | None
    next_price: Decimal | None

    @property
    def source(self) -> str:
        """Whose price it is: `list`, or the card by name with its team."""
        card = self.rate.card if self.rate else None
        if self.rate is None:
            return ""
        return f"{card.name} of {card.team.slug}" if card and card.team else "list"


def prices_of_team(viewer: User, slug: str, *, now: datetime) -> tuple[Team, list[PaidPrice]]:
    """The team and its prices by model and kind; kinds that cost what any held time does are left
    out. Raises NotFound for a team whose costs the viewer may not see."""
    team = get_priced_team(viewer, slug)
    way = (team.pk, *ways_up([team.pk])[team.pk])
    mine = [
        rate
        for rate in approved_rates().select_related("card__team")
        if rate.card is None or rate.card.team_id is None or rate.card.team_id in way
    ]
    account = team_account(str(team.pk))
    prices = PriceList(
        (price_of(rate) for rate in mine), {account: [team_account(str(pk)) for pk in way]}
    )
    by_id = {str(rate.pk): rate for rate in mine}
    # Rounded as begins and ends are, so that what begins right now holds.
    now_s = math.ceil(now.timestamp())
    far_s = now_s + int(_AHEAD.total_seconds())
    found = []
    for model in sorted({rate.device_model for rate in mine}, key=lambda name: (not name, name)):
        seen: set[tuple[str, int | None]] = set()
        for charged, kind in _KINDS.items():
            price = prices.at(model, charged, now_s, account)
            changes = prices.changes(model, charged, now_s, far_s, account)
            then = [(at, prices.at(model, charged, at, account)) for at in changes]
            change = next(((at, one) for at, one in then if _id(one) != _id(price)), None)
            key = (_id(price), change[0] if change else None)
            if (price is None and change is None) or key in seen:
                continue
            seen.add(key)
            listed = prices.at(model, charged, now_s)
            found.append(
                PaidPrice(
                    model,
                    kind,
                    by_id.get(_id(price)),
                    listed.per_gpu_hour if listed else None,
                    datetime.fromtimestamp(change[0], UTC) if change else None,
                    change[1].per_gpu_hour if change and change[1] else None,
                )
            )
    return team, found


def _id(price: Price | None) -> str:
    return price.id if price else ""
