"""Finance acts: months close and reopen, amounts and prices need two, budgets are set and seen."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import Rate
from accounts.services import propose_rate
from scheduler.models import Adjustment, Budget, LedgerEntry, Period
from scheduler.services.books import do_countings, propose_adjustment
from scheduler.services.sharing.budgets import set_budget
from tests.factories import person
from tests.scenes import build_cluster, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def second(root):
    return person("second", is_superuser=True)


@pytest.fixture
def as_(client):
    def sign_in(user):
        client.force_login(user)
        return client

    return sign_in


def said(reply) -> str:
    return reply.content.decode()


class TestMonths:
    def test_a_month_is_closed_as_it_was_seen(self, as_, root, project):
        Period.objects.create(name="2026-01", currency="EUR")
        client = as_(root)
        page = said(client.get("/finance/periods/"))
        assert 'value="open.0.0"' in page
        assert "Close 2026-01" in page
        closed = client.post("/finance/periods/2026-01/close/", {"seen": "open.0.0"}, follow=True)
        assert "2026-01 is closed as version 1." in said(closed)
        again = client.post("/finance/periods/2026-01/close/", {"seen": "open.0.0"})
        assert again.status_code == 409
        assert "has changed since you looked at it" in said(again)
        assert Period.objects.get(name="2026-01").version == 1

    def test_what_keeps_a_month_open_is_listed_with_a_way_to_mend_it(self, as_, root):
        now = f"{timezone.now():%Y-%m}"
        reply = as_(root).post(f"/finance/periods/{now}/close/", {"seen": ""})
        assert reply.status_code == 409
        assert "What keeps it from being closed" in said(reply)
        assert "is not over before" in said(reply)

    def test_a_large_month_is_counted_behind_the_page(self, as_, root, project, monkeypatch):
        monkeypatch.setattr("scheduler.services.books.counting.is_much", lambda months: True)
        Period.objects.create(name="2026-01", currency="EUR")
        client, at = as_(root), "/finance/periods/"
        asked = client.post(f"{at}2026-01/check/", follow=True)
        assert "2026-01 is being counted" in said(asked)
        part = said(client.get(at, {"part": "months"}))
        assert 'hx-trigger="live"' in part
        assert "Close 2026-01" not in part
        assert "To be counted for the check" in part
        assert client.post(f"{at}2026-01/close/", {"seen": "open.0.0"}).status_code == 409
        do_countings()
        page = said(client.get(at))
        assert "Nothing is in the way of closing it." in page
        client.post(f"{at}2026-01/close/", {"seen": "open.0.0"})
        do_countings()
        page = said(client.get(at))
        assert "2026-01 is closed as version 1." in page
        assert 'hx-trigger="live"' not in page.partition('id="months"')[2]

    def test_two_people_reopen(self, as_, root, second):
        Period.objects.create(name="2026-01", currency="EUR")
        client = as_(root)
        client.post("/finance/periods/2026-01/close/", {"seen": ""})
        url = "/finance/periods/2026-01/reopen/"
        assert client.post(url, {"reason": " "}).status_code == 422
        client.post(url, {"reason": "a node was forgotten", "seen": "closed.1.0"})
        assert client.post(url, {"seen": ""}).status_code == 409
        # Who has proposed it is told that it waits, and may take it back; another may decline.
        waits = said(as_(root).get("/finance/periods/"))
        assert "Take the proposal back" in waits and "Correct or reopen" not in waits
        assert "2026-01 stays closed" in said(as_(second).get("/finance/periods/"))
        seen = f"closed.1.{root.pk}"
        as_(root).post("/finance/periods/2026-01/decline/", {"seen": seen})
        assert "Correct or reopen" in said(as_(root).get("/finance/periods/"))
        as_(root).post(url, {"reason": "a node was forgotten", "seen": "closed.1.0"})
        assert "Reopen 2026-01" in said(as_(second).get("/finance/periods/"))
        as_(second).post(url, {"seen": f"closed.1.{root.pk}"})
        assert Period.objects.get(name="2026-01").state == "reopened"

    @pytest.mark.parametrize("month", ["2026-13", "2026-1", "x", "0000-00"])
    def test_what_is_no_month_is_refused(self, as_, root, month):
        reply = as_(root).post(f"/finance/periods/{month}/close/")
        assert reply.status_code == 422
        assert not Period.objects.exists()

    def test_get_decides_nothing(self, as_, root):
        led = as_(root).get("/finance/periods/2026-01/close/")
        assert (led.status_code, led.url) == (302, "/finance/periods/")
        assert as_(root).post("/finance/periods/2026-01/burn/").status_code == 404


BAD_AMOUNTS = [
    ("0", "not 0"),
    ("", "required"),
    ("1,50", "with a point"),
    ("1e3000", "no more than"),
    ("NaN", "with a point"),
    ("Infinity", "with a point"),
    ("0.12345678901234567890", "at most 15 decimals"),
    ("9999999999999", "up to"),
    ("٣", ""),
]


class TestAdjustments:
    def test_one_proposes_another_posts(self, as_, root, second, project):
        asked = {"project": project.path, "amount": "-12.50", "reason": "a day lost"}
        assert as_(root).post("/finance/adjustments/", asked).status_code == 302
        row = Adjustment.objects.get()
        assert as_(root).post("/finance/adjustments/", asked).status_code == 409
        assert Adjustment.objects.count() == 1
        assert as_(root).post(f"/finance/adjustments/{row.pk}/post/").status_code == 403
        assert as_(second).post(f"/finance/adjustments/{row.pk}/post/").status_code == 302
        assert as_(second).post(f"/finance/adjustments/{row.pk}/post/").status_code == 409
        assert as_(second).post(f"/finance/adjustments/{row.pk}/decline/").status_code == 409
        assert LedgerEntry.objects.get().amount == Decimal("12.5")
        assert "entry 1 in" in said(as_(second).get("/finance/adjustments/"))

    @pytest.mark.parametrize(("amount", "words"), BAD_AMOUNTS)
    def test_bad_amounts_are_refused_beside_the_field(self, as_, root, project, amount, words):
        asked = {"project": project.path, "amount": amount, "reason": "fans"}
        reply = as_(root).post("/finance/adjustments/", asked)
        if words:
            assert reply.status_code == 422
            assert words in said(reply)
            assert not Adjustment.objects.exists()
        else:
            assert Adjustment.objects.get().amount == 3

    def test_a_formula_as_a_reason_is_shown_as_text(self, as_, root, project):
        propose_adjustment(
            actor=root, project=project, amount=Decimal(1), reason="=1+1<script>alert(1)</script>"
        )
        page = said(as_(root).get("/finance/adjustments/"))
        assert "<script>alert(1)" not in page
        assert "=1+1&lt;script" in page


BAD_PRICES = [
    ({"price_per_gpu_hour": "-1"}, "from 0"),
    ({"price_per_gpu_hour": "2,90"}, "with a point"),
    ({"price_per_gpu_hour": "0.12345678901234567890"}, "at most 6 decimals"),
    ({"price_per_gpu_hour": "NaN"}, "with a point"),
    ({"price_per_gpu_hour": "1000001"}, "from 0"),
    ({"valid_from": "2020-01-01 00:00"}, "This moment has passed"),
    ({"valid_from": "2020-01-01 00:00", "restate": "on"}, "Say why"),
    ({"valid_from": "2026-02-30 00:00"}, "such as 2026-12-01 00:00"),
    ({"kind": "gift"}, "valid choice"),
    ({"device_model": "Abacus"}, "valid choice"),
]


class TestPrices:
    def test_one_proposes_another_approves_once(self, as_, root, second):
        asked = {"price_per_gpu_hour": "2.5", "valid_from": "2126-12-01 00:00"}
        assert as_(root).post("/finance/prices/", asked).status_code == 302
        assert as_(root).post("/finance/prices/", asked).status_code == 422
        rate = Rate.objects.get()
        assert as_(root).post(f"/finance/prices/{rate.pk}/approve/").status_code == 403
        assert as_(second).post(f"/finance/prices/{rate.pk}/approve/").status_code == 302
        assert as_(second).post(f"/finance/prices/{rate.pk}/approve/").status_code == 409
        assert as_(second).post(f"/finance/prices/{rate.pk}/decline/").status_code == 409
        assert "approved by" in said(as_(second).get("/finance/prices/"))

    def test_the_boxes_for_ends_have_a_label_that_everybody_can_read(self, as_, root):
        """The head of their column; the cluster has a price in force."""
        build_cluster(root)
        page = said(as_(root).get("/finance/prices/"))
        assert 'id="ends-of-list">Ends (UTC), empty: now</th>' in page
        assert 'autocomplete="off" aria-labelledby="ends-of-list">' in page

    @pytest.mark.parametrize(("wrong", "words"), BAD_PRICES)
    def test_bad_prices_are_refused_beside_the_field(self, as_, root, wrong, words):
        reply = as_(root).post("/finance/prices/", {"price_per_gpu_hour": "2", **wrong})
        assert reply.status_code == 422
        assert words in said(reply)
        assert not Rate.objects.exists()

    @pytest.mark.parametrize("currency", ["XXX", "USD", "eur", "€", "EURO"])
    def test_only_the_currency_of_the_books_is_taken(self, root, currency):
        from accounts.errors import Invalid

        with pytest.raises(Invalid, match="EUR") as refusal:
            propose_rate(
                actor=root, device_model="", price_per_gpu_hour=Decimal(2), currency=currency
            )
        assert refusal.value.field == "currency"
        assert not Rate.objects.exists()


def test_a_budget_is_set_changed_and_removed_as_it_was_seen(as_, root, team):
    begin = timezone.now() - timedelta(days=1)
    asked = {
        "owner": "vision", "amount": "1250.50", "valid_from": f"{begin:%Y-%m-%d} 00:00",
        "valid_until": f"{begin + timedelta(days=30):%Y-%m-%d} 00:00", "enforcement": "hard_stop",
        "grace_s": "300", "carry_percent": "10", "action": "notify", "action_at": "80",
    }  # fmt: skip
    client = as_(root)
    assert client.post("/finance/budgets/", asked).status_code == 302
    budget = Budget.objects.get()
    page = said(client.get(f"/finance/budgets/?edit={budget.pk}"))
    assert "1,250.50" in page
    assert 'value="1250.50"' in page
    assert client.post("/finance/budgets/", {**asked, "version": "1"}).status_code == 302
    assert client.post("/finance/budgets/", {**asked, "version": "1"}).status_code == 409
    bad = client.post("/finance/budgets/", {**asked, "amount": "1,5", "version": "2"})
    assert bad.status_code == 422
    assert "with a point" in said(bad)
    assert client.post(f"/finance/budgets/{budget.pk}/remove/", {"version": "1"}).status_code == 409
    assert client.post(f"/finance/budgets/{budget.pk}/remove/", {"version": "2"}).status_code == 302
    assert not Budget.objects.exists()


@pytest.mark.parametrize(
    ("currency", "amount", "shown"),
    [("KWD", "1000.125", "1000.125"), ("JPY", "1000", "1000"), ("EUR", "1000.5", "1000.50")],
)
def test_a_budget_is_edited_to_the_last_coin(as_, root, team, settings, currency, amount, shown):
    settings.TRAINYARD = {**settings.TRAINYARD, "currency": currency}
    times = {"valid_from": timezone.now(), "valid_until": timezone.now() + timedelta(days=30)}
    budget = set_budget(actor=root, owner=team, amount=Decimal(amount), **times)
    for path in ("/finance/budgets/?edit", "/teams/vision/quota/?budget"):
        page = as_(root).get(f"{path}={budget.pk}")
        assert f'value="{shown}"' in said(page), path


def test_a_budget_that_commits_at_the_submit_says_what_of_it_waits(as_, root, team, project):
    build_cluster(root)
    begin = timezone.now() - timedelta(days=1)
    asked = {
        "owner": "vision", "gpu_hours": "10", "valid_from": f"{begin:%Y-%m-%d} 00:00",
        "valid_until": f"{begin + timedelta(days=30):%Y-%m-%d} 00:00", "enforcement": "reserve",
        "grace_s": "300", "carry_percent": "0", "action": "notify", "action_at": "80",
    }  # fmt: skip
    client = as_(root)
    assert client.post("/finance/budgets/", asked).status_code == 302
    submit(root, project, now=timezone.now(), time_limit="3h")
    page = said(client.get("/finance/budgets/"))
    assert "commits at the submit" in page
    assert "3.0 of it waits" in page
    warns = {**asked, "enforcement": "warn", "version": "1"}
    bad = client.post("/finance/budgets/", {**warns, "commits_at": "submit"})
    assert bad.status_code == 422
    assert "Only a budget that reserves" in said(bad)
    assert client.post("/finance/budgets/", warns).status_code == 302
    assert Budget.objects.get().commits_at == "start"


def test_a_form_from_elsewhere_decides_nothing(root, project):
    client = Client(enforce_csrf_checks=True)
    client.force_login(root)
    asked = {"project": project.path, "amount": "5", "reason": "fans"}
    assert client.post("/finance/adjustments/", asked).status_code == 403
    assert not Adjustment.objects.exists()
