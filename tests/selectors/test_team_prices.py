"""What a team pays, beside the list: page and REST, for who sees its costs."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.services import (
    appoint_bookkeeper,
    approve_card,
    draft_card,
    propose_card,
    propose_rate,
)
from scheduler.selectors.books.prices.team import prices_of_team
from tests.accounts.pricing import HOUR, held

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_a_lead_sees_the_teams_prices_and_nobody_elses(
    client, root, finance, lead, team, other_team
):
    appoint_bookkeeper(actor=root, user=finance)
    now = timezone.now()
    past = {"restate": True, "reason": "first"}
    held(root, finance, "2", now - 48 * HOUR, **past)
    held(root, finance, "3", now - 48 * HOUR, model="", **past)
    held(root, finance, "0.5", now - 48 * HOUR, kind="reserved-idle", **past)
    for whose, price in ((team, "1.5"), (other_team, "77")):
        card = draft_card(actor=finance, name=f"Own {price}", team=whose)
        propose_rate(
            actor=finance, device_model="H100", price_per_gpu_hour=Decimal(price), card=card
        )
        approve_card(actor=root, card=propose_card(actor=finance, card=card))
    change = timezone.now() + 9 * HOUR
    held(root, finance, "4", change, model="")
    _, prices = prices_of_team(lead, team.slug, now=timezone.now() + HOUR)
    assert [
        (one.model, one.kind, one.rate.price_per_gpu_hour, one.source, one.listed, one.next_price)
        for one in prices
    ] == [
        ("H100", "", Decimal("1.5"), f"Own 1.5 of {team.slug}", 2, None),
        ("H100", "reserved-idle", Decimal("0.5"), "list", Decimal("0.5"), None),
        ("", "", 3, "list", 3, 4),
    ]

    client.force_login(lead)
    page = client.get(f"/teams/{team.slug}/prices/")
    assert page.status_code == 200
    words = page.content.decode()
    assert "Own 1.5" in words and "Own 77" not in words and "77.00" not in words
    (own, *_) = client.get(f"/api/v1/teams/{team.slug}/prices/").json()["items"]
    assert own["paid_by"] == f"Own 1.5 of {team.slug}"
    for address in ("/teams/{}/prices/", "/api/v1/teams/{}/prices/"):
        for slug in (other_team.slug, "nobodys"):
            assert client.get(address.format(slug)).status_code == 404
