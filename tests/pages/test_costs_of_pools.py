"""Terms, purchases and costs on pages: proposed by one person, decided by another."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from accounts.models import User
from scheduler.models import Asset, LedgerEntry, Pool, PoolCost, PoolTerms
from scheduler.selectors.books.spending import ways_to_leave
from tests.factories import person
from tests.pages.purchases import AHEAD
from tests.scenes import NOON, build_cluster

pytestmark = pytest.mark.django_db

TERMS = {
    "pool": "default",
    "idle": "hybrid",
    "platform": "by_use",
    "guarantee_percent": "40",
    "refund_s": "600",
    "recovery": "rates",
    "unreachable": "team",
    "reason": "agreed in spring",
}
CARDS = {"pool": "default", "name": "cards", "paid": "1200.50", "since": "2126-01-01"}
ENERGY = {"pool": "default", "month": AHEAD, "kind": "energy", "amount": "-3.25", "note": "m"}


@pytest.fixture
def as_(client, root):
    build_cluster(root, nodes=1, gpus=1)
    people = {"root": root, "second": person("second", is_superuser=True)}

    def sign_in(name):
        client.force_login(people[name])
        return client

    return sign_in


def said(reply) -> str:
    return reply.content.decode()


def test_terms_hold_once_a_second_person_agrees(as_):
    page = said(as_("root").post("/finance/terms/", TERMS, follow=True))
    assert "another person has to approve them" in page
    assert "Take back" in page
    assert "Approve" not in page, "nobody approves their own"
    terms = PoolTerms.objects.get()
    refused = as_("root").post(f"/finance/terms/{terms.pk}/approve/")
    assert refused.status_code == 403
    page = said(as_("second").post(f"/finance/terms/{terms.pk}/approve/", follow=True))
    assert "partly by guarantee, the rest by use (40 %)" in page
    assert "10 min" in page
    again = as_("second").post(f"/finance/terms/{terms.pk}/decline/")
    assert again.status_code == 409
    assert "approved already" in said(again)


def test_what_is_left_out_stays_as_it_is_in_the_pool_that_is_chosen(as_):
    beside = Pool.objects.create(name="beside")
    as_("root").post("/finance/terms/", {**TERMS, "pool": "beside", "guarantee_percent": "95"})
    first = PoolTerms.objects.get()
    page = said(as_("second").get("/finance/terms/"))
    assert "partly by guarantee, the rest by use (95 %)" in page
    # Idle and platform, what is credited and what silent nodes hold; not how teams pay.
    assert page.count("changes</span>") == 4
    as_("second").post(f"/finance/terms/{first.pk}/approve/")
    assert "10 min credited" in said(as_("root").get("/finance/terms/"))
    as_("root").post("/finance/terms/", {"pool": "beside", "refund_s": "0", "reason": "dear"})
    second = PoolTerms.objects.first()
    kept = ("pool", "idle", "platform", "guarantee_percent", "recovery", "unreachable")
    assert [getattr(second, name) for name in kept] == [getattr(first, name) for name in kept]
    assert (second.pool, second.refund_s) == (beside, 0)
    page = said(as_("second").get("/finance/terms/"))
    assert "nothing credited" in page and page.count("changes</span>") == 1


def test_an_asset_is_bought_and_leaves_by_two(as_):
    assert as_("root").post("/finance/assets/", {**CARDS, "months": "12"}).status_code == 302
    asset = Asset.objects.get()
    assert asset.cost == Decimal("1200.50")
    as_("second").post(f"/finance/assets/{asset.pk}/approve/")
    bad = as_("second").post(f"/finance/assets/{asset.pk}/retire/", {"on": "2125-02-30"})
    assert bad.status_code == 422
    assert "Write a day such as" in said(bad)
    leave = {"on": "2126-02-01", "reason": "water"}
    as_("second").post(f"/finance/assets/{asset.pk}/retire/", leave)
    assert as_("second").post(f"/finance/assets/{asset.pk}/agree/").status_code == 403
    page = said(as_("root").get("/finance/assets/"))
    assert 'to leave <time datetime="2126-02-01">1 Feb 2126<' in page
    assert "Let it leave" in page
    as_("root").post(f"/finance/assets/{asset.pk}/agree/")
    asset.refresh_from_db()
    assert f"{asset.retired_on}" == "2126-02-01"
    assert as_("second").post(f"/finance/assets/{asset.pk}/keep/").status_code == 409


def test_who_retires_an_asset_sees_how_much_is_given_up(as_):
    """Of 48 000 over four years half is left after two: 730 and 731 days of 1 461."""
    pool, root = Pool.objects.get(), User.objects.get(username="root")
    asset = Asset.objects.create(
        pool=pool, name="cards", cost=Decimal(50_000), residual=Decimal(2_000), currency="EUR",
        paid=Decimal(50_000), paid_currency="EUR", fx_rate=Decimal(1), since=date(2025, 1, 1),
        months=48, decision="approved", proposed_by=root, proposed_at=NOON,
    )  # fmt: skip
    ways = ways_to_leave(asset, today=date(2026, 12, 31))
    assert [way.on for way in ways[:2]] == [date(2026, 12, 31), date(2027, 1, 1)]
    assert {way.written_off + way.given_up for way in ways} == {Decimal(48_000)}
    assert ways[1].written_off == Decimal("23983.57")
    assert ways_to_leave(asset, today=date(2031, 1, 1))[0].given_up == 0
    assert ways_to_leave(asset, today=date(2020, 1, 1)) == []
    page = said(as_("second").get(f"/finance/assets/{asset.pk}/retire/"))
    assert "Written off before" in page and "Given up then" in page and "2,000.00 EUR" in page


def test_a_cost_is_booked_when_a_second_person_agrees(as_):
    as_("root").post("/finance/costs/", ENERGY)
    cost = PoolCost.objects.get()
    assert not LedgerEntry.objects.exists()
    page = said(as_("second").post(f"/finance/costs/{cost.pk}/approve/", follow=True))
    assert "booked" in page
    assert LedgerEntry.objects.get().period.name == AHEAD
    assert "No month is closed yet." in page


@pytest.mark.parametrize(
    ("path", "sent", "field"),
    [
        ("terms", {**TERMS, "guarantee_percent": "101"}, "guarantee_percent"),
        ("terms", {**TERMS, "guarantee_percent": "1.5"}, "guarantee_percent"),
        ("terms", {**TERMS, "refund_s": "-1"}, "refund_s"),
        ("terms", {**TERMS, "from_month": "2126-13"}, "from_month"),
        ("terms", {**TERMS, "pool": "nowhere"}, "pool"),
        ("assets", {**CARDS, "months": "0"}, "months"),
        ("assets", {**CARDS, "months": "12", "paid": "1200,50"}, "paid"),
        ("assets", {**CARDS, "months": "12", "paid": "0"}, "paid"),
        ("assets", {**CARDS, "months": "12", "paid": "1." + "1" * 20}, "paid"),
        ("assets", {**CARDS, "months": "12", "paid_currency": "XXX"}, "paid_currency"),
        ("assets", {**CARDS, "months": "12", "paid_currency": "USD"}, "fx_rate"),
        ("assets", {**CARDS, "months": "12", "since": "2126-02-30"}, "since"),
        ("costs", {**ENERGY, "amount": "0"}, "amount"),
        ("costs", {**ENERGY, "month": "2126-00"}, "month"),
        ("costs", {**ENERGY, "month": "2126-01"}, "month"),
        ("terms", {**TERMS, "from_month": "2126-01"}, "from_month"),
        ("costs", {**ENERGY, "kind": "rent"}, "kind"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(as_, path, sent, field):
    reply = as_("root").post(f"/finance/{path}/", sent)
    assert reply.status_code == 422
    assert list(reply.context["form"].errors) == [field]
    assert not PoolTerms.objects.exists()
    assert not Asset.objects.exists()
    assert not PoolCost.objects.exists()


@pytest.mark.parametrize("act", ["terms/1/agree", "assets/1/burn", "costs/1/post"])
def test_what_is_no_decision_is_not_found(as_, act):
    assert as_("root").post(f"/finance/{act}/").status_code == 404
    led = as_("root").get(f"/finance/{act}/")
    assert (led.status_code, led.url) == (302, f"/finance/{act.partition('/')[0]}/")
