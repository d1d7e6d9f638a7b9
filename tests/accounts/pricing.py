"""Prices that hold, for tests of them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from django.utils import timezone

from accounts.models import User
from accounts.selectors.rates import rate_at
from accounts.services import (
    approve_end,
    approve_rate,
    create_team,
    draft_card,
    propose_card,
    propose_end,
    propose_rate,
)

HOUR = timedelta(hours=1)


def held(root, clerk, price, begin, **more):
    """An approved rate of H100."""
    rate = propose_rate(
        actor=clerk,
        device_model=more.pop("model", "H100"),
        price_per_gpu_hour=Decimal(price),
        valid_from=begin,
        **more,
    )
    return approve_rate(actor=root, rate=rate)


def ended(first, second, **what):
    """What `first` proposed to end and `second` agreed to."""
    return approve_end(actor=second, ending=propose_end(actor=first, **what))


def prices(begin, *hours, team=None):
    found = (rate_at("H100", begin + hour * HOUR, team) for hour in hours)
    return [rate and int(rate.price_per_gpu_hour) for rate in found]


def desk_of(second: User) -> dict[str, int]:
    """By word the ids of what `second` proposed and another held: a rate that waits, one in force,
    an end that waits, a card that is drafted and one that waits. A team `unpriced` has none."""
    root = User.objects.filter(is_superuser=True).exclude(pk=second.pk).order_by("pk")[0]
    ask = {"actor": second, "device_model": "", "price_per_gpu_hour": Decimal(2)}
    create_team(actor=root, name="Unpriced", slug="unpriced")
    cards = []
    for name in ("Drafted", "Proposed"):
        team = create_team(actor=root, name=name)
        cards.append(draft_card(actor=second, name=name, team=team))
        propose_rate(**ask, card=cards[-1])
    ask["device_model"] = "B"
    begin = timezone.now() - timedelta(days=9)
    before = {"restate": True, "reason": "x", "valid_from": begin}
    past = propose_rate(**ask, **before)
    leaving = approve_rate(actor=root, rate=propose_rate(**{**ask, "device_model": "C"}, **before))
    return {
        "rate": propose_rate(**ask).pk,
        "held_rate": approve_rate(actor=root, rate=past).pk,
        "ending": propose_end(actor=second, rate=leaving).pk,
        "draft_card": cards[0].pk,
        "card": propose_card(actor=second, card=cards[1]).pk,
    }
