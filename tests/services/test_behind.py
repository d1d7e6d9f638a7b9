"""A large month is counted behind the page that asked: once, guarded as at once, and told."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import OperationalError
from django.utils import timezone

from accounts.models import AuditEvent, Rate, RateDecision
from accounts.services import propose_rate
from scheduler.models import Counting, CountingAct, LedgerEntry, Period, PricePreview
from scheduler.services import books
from scheduler.services.books import counting
from scheduler.services.books.months import behind
from scheduler.services.errors import Conflict, Forbidden, Invalid
from tests import scenes
from tests.scenes import NOON
from tests.services.test_books import DECEMBER, clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
MONTH = "2026-11"


@pytest.fixture
def large(monkeypatch):
    """Every month is one that no page waits for, and the books' clock stands in December."""
    monkeypatch.setattr(counting, "AT_ONCE", 0)
    monkeypatch.setattr(timezone, "now", lambda: DECEMBER)


def ask(actor, act=CountingAct.CLOSE, **more):
    return books.count_behind(actor=actor, act=act, **{"period": MONTH, **more})


def test_what_is_small_is_left_to_who_asks(root, yard):
    assert ask(root, now=DECEMBER) is None
    assert not Counting.objects.exists()


def test_a_close_is_done_once_and_its_outcome_stays(root, yard, large):
    row = ask(root, seen="open.0.0")
    assert row.is_waiting
    told = json.loads(AuditEvent.objects.get(action="books.count").after)
    assert told == {"number": row.pk, "for": "close"}
    with pytest.raises(Conflict, match="being counted already"):
        ask(root)
    assert books.do_countings() == 1
    row.refresh_from_db()
    assert (row.is_refused, row.says) == (False, "2026-11 is closed as version 1.")
    posted = LedgerEntry.objects.count()
    assert books.do_countings() == 0
    assert LedgerEntry.objects.count() == posted


def test_who_may_not_and_what_changed_are_refused_before_anything_is_asked(
    alice, root, large, yard
):
    for wrong, refused in (
        ({"actor": alice}, Forbidden),
        ({"actor": alice, "act": CountingAct.CHECK}, Forbidden),
        ({"actor": root, "period": "november"}, Invalid),
        ({"actor": root, "seen": "closed.3.0"}, Conflict),
        ({"actor": root, "act": CountingAct.CORRECT}, Invalid),
        ({"actor": root, "act": CountingAct.CORRECT, "reason": "late"}, Conflict),
        ({"actor": root, "period": "2026-12"}, books.CloseBlocked),
        ({"actor": root, "period": "2026-12", "act": CountingAct.SOFT_CLOSE}, books.CloseBlocked),
    ):
        with pytest.raises(refused):
            ask(**wrong)
    assert not Counting.objects.exists()


def test_what_stands_in_the_way_is_told_with_the_wish(root, yard, large):
    ask(root)
    Rate.objects.all().delete()
    books.do_countings()
    row = Counting.objects.get()
    assert row.is_refused
    assert {one["trouble"] for one in row.found["findings"]} == {"no_rate"}
    assert Period.objects.get(name=MONTH).state == "soft_closed"


def test_a_worker_that_died_after_the_close_leaves_no_second_one(root, yard, large):
    row = ask(root, seen="open.0.0")
    Counting.objects.update(claimed_at=DECEMBER - timedelta(minutes=1))
    assert books.do_countings() == 0
    books.close_period(actor=root, period=MONTH, now=DECEMBER)
    Counting.objects.update(claimed_at=DECEMBER - timedelta(minutes=6))
    assert books.do_countings() == 1
    row.refresh_from_db()
    assert row.is_refused
    assert "it is closed now, version 1" in row.says


def test_a_database_that_is_away_leaves_it_to_be_taken_up_again(root, yard, large, monkeypatch):
    ask(root, CountingAct.CHECK)

    def away(_):
        raise OperationalError("gone")

    monkeypatch.setitem(behind._ACTS, CountingAct.CHECK, away)
    books.do_countings()
    assert Counting.objects.get().is_waiting
    monkeypatch.setitem(behind._ACTS, CountingAct.CHECK, lambda row: 1 / 0)
    Counting.objects.update(claimed_at=None)
    books.do_countings()
    assert "our fault" in Counting.objects.get().says


def test_a_check_a_correction_and_a_soft_close_say_what_came_of_them(root, yard, large):
    ask(root, CountingAct.CHECK)
    books.do_countings()
    trial = books.try_period(actor=root, period=MONTH, now=DECEMBER)
    found = Counting.objects.get().found
    assert Decimal(found["used"]) == trial.used > 0
    assert found["findings"] == []
    ask(root, CountingAct.SOFT_CLOSE)
    books.do_countings()
    assert Period.objects.get(name=MONTH).state == "soft_closed"
    close(root)
    ask(root, CountingAct.CORRECT, reason="what came late")
    books.do_countings()
    assert Counting.objects.first().says == "Nothing differs."


def test_a_price_is_approved_upon_what_was_counted_behind(root, clerk, yard, large):
    close(root)
    rate = propose_rate(
        actor=clerk,
        device_model=scenes.MODEL,
        price_per_gpu_hour=Decimal("2.3333"),
        valid_from=NOON - timedelta(days=3),
        restate=True,
        reason="contract",
    )
    with pytest.raises(Conflict, match="Look first"):
        books.approve_price(actor=root, rate=rate)
    books.count_behind(actor=root, act=CountingAct.PREVIEW, rate=rate)
    with pytest.raises(Conflict, match="This price is being counted"):
        books.count_behind(actor=root, act=CountingAct.PREVIEW, rate=rate)
    books.do_countings()
    assert PricePreview.objects.get().moves
    assert books.approve_price(actor=root, rate=rate).decision == RateDecision.APPROVED
    assert PricePreview.objects.get().decided_at is not None
