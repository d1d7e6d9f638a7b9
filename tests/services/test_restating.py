"""What a price for the past would move: shown before, exact, kept with the yes."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.management import call_command

from accounts.models import Rate, RateCard
from accounts.services import propose_rate
from scheduler.models import Attempt, LedgerEntry, PricePreview, UsageLine
from scheduler.services import books
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_books import DECEMBER, clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]


@pytest.fixture
def restated(clerk, yard, root):
    """November is closed; a third less from its first job on waits for a second person."""
    close(root)
    return propose_rate(
        actor=clerk,
        device_model=scenes.MODEL,
        price_per_gpu_hour=Decimal("2.3333"),
        valid_from=NOON - timedelta(days=3),
        restate=True,
        reason="contract",
    )


def owed() -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for entry in LedgerEntry.objects.filter(kind="correction"):
        account, sign = (entry.debit, 1) if entry.credit == "recovery" else (entry.credit, -1)
        found[account] = found.get(account, Decimal(0)) + sign * entry.amount
    return found


def test_what_is_shown_is_what_a_correction_posts(root, clerk, restated, team, project):
    """F12: new less old, per account and month; a fact that came late is in it as it will be."""
    Attempt.objects.filter(job__project=project).update(end_reason=EndReason.DEVICE_FAILED)
    rows = (LedgerEntry.objects.count(), UsageLine.objects.count())
    shown = books.preview_price(actor=root, rate=restated)
    assert (LedgerEntry.objects.count(), UsageLine.objects.count()) == rows
    mine = next(m for m in shown.moves if m["name"] == project.path)
    assert (mine["month"], mine["before"], mine["after"]) == ("2026-11", "7.2", "0")
    for move in shown.moves:
        assert Decimal(move["before"]) + Decimal(move["change"]) == Decimal(move["after"])
    with pytest.raises(Forbidden, match="another person"):
        books.approve_price(actor=clerk, rate=restated, seen=shown.pk)
    books.approve_price(actor=root, rate=restated, seen=shown.pk)
    assert PricePreview.objects.get().decided_at is not None
    books.correct_period(actor=root, period="2026-11", reason="contract", now=DECEMBER)
    assert owed() == {m["account"]: Decimal(m["change"]) for m in shown.moves}
    with pytest.raises(Conflict, match="approved already"):
        books.preview_price(actor=root, rate=restated)


def test_on_a_card_with_an_end_it_moves_nothing_behind_that(root, clerk, yard, team, project):
    close(root)
    card = RateCard.objects.create(
        name="Autumn", team=team, currency="EUR", decision="approved", valid_until=at(3_600)
    )
    price = {"device_model": scenes.MODEL, "price_per_gpu_hour": Decimal(3), "card": card}
    with pytest.raises(Invalid, match="does not live that long"):
        propose_rate(actor=clerk, valid_from=at(3_600), restate=True, reason="late", **price)
    rate = propose_rate(actor=clerk, valid_from=NOON, restate=True, reason="contract", **price)
    shown = books.preview_price(actor=root, rate=rate)
    # The first of two hours at 3 instead of 3.60.
    (mine,) = (move["change"] for move in shown.moves if move["name"] == project.path)
    assert mine == "-0.6"
    books.approve_price(actor=root, rate=rate, seen=shown.pk)
    books.correct_period(actor=root, period="2026-11", reason="contract", now=DECEMBER)
    assert owed() == {move["account"]: Decimal(move["change"]) for move in shown.moves}


def test_who_approves_decides_upon_the_books_as_shown(root, restated, team):
    shown = books.preview_price(actor=root, rate=restated)
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    books.correct_period(actor=root, period="2026-11", reason="lost", now=DECEMBER)
    with pytest.raises(Conflict, match="have changed"):
        books.approve_price(actor=root, rate=restated, seen=shown.pk)
    restated.refresh_from_db()
    assert restated.decision == "proposed"
    # Without figures that were seen, they are counted with the decision and kept with it.
    books.approve_price(actor=root, rate=restated)
    assert PricePreview.objects.filter(decided_at__isnull=False).count() == 1


def test_what_cannot_be_counted_says_why(root, restated):
    Rate.objects.filter(decision="approved").update(currency="USD")
    restated.valid_from = NOON + timedelta(minutes=30)
    restated.save()
    shown = books.preview_price(actor=root, rate=restated)
    assert "2026-11 cannot be closed" in shown.trouble and shown.moves == []


def test_it_asks_a_bounded_number_of_questions(root, restated, django_assert_max_num_queries):
    with django_assert_max_num_queries(45):
        books.preview_price(actor=root, rate=restated)


def test_page_rest_and_command_show_the_same(client, root, clerk, restated, project, capsys):
    client.force_login(root)
    page = client.get("/finance/prices/").content.decode()
    assert "Show what it moves" in page and ">Approve<" not in page
    unseen = client.post(f"/finance/prices/{restated.pk}/approve/")
    assert unseen.status_code == 409 and "Look first" in unseen.content.decode()
    client.post(f"/finance/prices/{restated.pk}/preview/")
    page = client.get("/finance/prices/").content.decode()
    assert project.path in page and "−2.53" in page and ">Approve<" in page
    call_command("books", "price", str(restated.pk), "--by", "root", "--preview")
    said = capsys.readouterr().out
    assert f"2026-11\t{project.path}\t7.2\t4.6666\t-2.5334" in said
    reply = client.post(f"/api/v1/rates/{restated.pk}/preview/", "{}", "application/json").json()
    assert (project.path, "-2.5334") in {(m["name"], m["change"]) for m in reply["moves"]}
    seen = PricePreview.objects.order_by("pk").last()
    client.post(f"/finance/prices/{restated.pk}/approve/", {"seen": seen.pk})
    restated.refresh_from_db()
    assert restated.decision == "approved" and json.dumps(seen.moves)


def test_what_a_price_moves_in_large_months_is_counted_behind(client, root, restated, monkeypatch):
    monkeypatch.setattr("scheduler.services.books.counting.AT_ONCE", 0)
    client.force_login(root)
    asked = client.post(f"/api/v1/rates/{restated.pk}/preview/", "{}", "application/json")
    assert asked.status_code == 202
    assert asked.json()["counting"]["act"] == "preview"
    part = client.get("/finance/prices/", {"part": "proposed"}).content.decode()
    assert "To be counted for the preview" in part and "Show what it moves" not in part
    books.do_countings()
    mine = client.get("/api/v1/rates/proposals/").json()["items"][0]
    assert mine["preview"]["moves"] and mine["counting"]["ended_at"]
    assert ">Approve<" in client.get("/finance/prices/").content.decode()
