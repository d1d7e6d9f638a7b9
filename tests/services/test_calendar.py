"""Months close by themselves: on their days, in order, once; what is in the way is told once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.models import AuditEvent, Rate
from accounts.services import set_rate
from scheduler.models import LedgerEntry, Notification, Period, PeriodClose
from scheduler.services import books
from scheduler.services.books.months.calendar import close_by_calendar
from tests import scenes
from tests.services.test_books import clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
FIRST = datetime(2026, 12, 1, 0, 0, tzinfo=UTC)
FIFTH = FIRST + timedelta(days=4)
DAY = timedelta(days=1)


def state(month="2026-11") -> str:
    row = Period.objects.filter(name=month).first()
    return row.state if row else ""


def told() -> list[tuple[str, str]]:
    rows = Notification.objects.filter(kind="month_close").order_by("pk")
    return list(rows.values_list("person__username", "title"))


def test_softly_on_the_first_for_good_on_the_fifth_and_once(client, root, clerk, yard):
    assert close_by_calendar(now=FIRST - timedelta(seconds=1)) == 0
    client.force_login(clerk)
    assert close_by_calendar(now=FIRST) == 1 and state() == "soft_closed"
    assert close_by_calendar(now=FIFTH - timedelta(seconds=1)) == 0
    page = client.get("/finance/").content.decode()
    assert "5 Dec 2026" in page
    assert close_by_calendar(now=FIFTH) == 1
    only = PeriodClose.objects.get()
    assert (state(), only.closed_by, only.control) == ("closed", None, 1080)
    assert set(LedgerEntry.objects.values_list("created_by", flat=True)) == {"the system"}
    acts = AuditEvent.objects.filter(action__in=("period.soft_close", "period.close"))
    assert [(act.action, act.actor_id) for act in acts.order_by("pk")] == [
        ("period.soft_close", None),
        ("period.close", None),
    ]
    assert sorted(told()) == [
        (clerk.username, "2026-11 is closed"),
        (root.username, "2026-11 is closed"),
    ]
    for later in (FIFTH, FIFTH + DAY):
        assert close_by_calendar(now=later) == 0
    assert PeriodClose.objects.count() == 1 and books.verify_ledger().breaks == ()
    assert "the system" in client.get("/finance/periods/").content.decode()


def test_what_is_in_the_way_is_told_once_and_the_month_waits(
    client, clerk, root, yard, monkeypatch
):
    Rate.objects.all().delete()
    for hours in (0, 1, 25, 49):
        close_by_calendar(now=FIFTH + timedelta(hours=hours))
    assert state() == "soft_closed" and not LedgerEntry.objects.exists()
    news = Notification.objects.get(person=clerk)
    assert news.title == "2026-11 could not be closed" and news.path == "/finance/periods/#m2026-11"
    assert "run-guaranteed" in news.text
    with monkeypatch.context() as patched:
        patched.setattr("django.utils.timezone.now", lambda: FIFTH + timedelta(hours=49))
        client.force_login(clerk)
        assert "something stood in the way" in client.get("/finance/periods/").content.decode()
    set_rate(
        actor=root,
        device_model=scenes.MODEL,
        price_per_gpu_hour=Decimal("3.60"),
        valid_from=datetime(2026, 11, 1, tzinfo=UTC),
        restated_for="forgotten",
    )
    Rate.objects.update(decision="approved")
    assert close_by_calendar(now=FIFTH + timedelta(hours=50)) == 0, "it is not counted every hour"
    assert close_by_calendar(now=FIFTH + timedelta(hours=70)) == 1 and state() == "closed"


def test_months_are_closed_in_order_and_a_reopened_one_is_left_to_people(root, clerk, yard):
    close(root)
    books.reopen_period(actor=root, period="2026-11", reason="wrong project")
    books.reopen_period(actor=clerk, period="2026-11")
    in_january = FIFTH + 31 * DAY
    assert close_by_calendar(now=in_january) == 1
    assert (state(), state("2026-12")) == ("reopened", "soft_closed")
    close(root)
    assert close_by_calendar(now=in_january) == 1
    assert (state("2026-12"), PeriodClose.objects.count()) == ("closed", 3)


@pytest.mark.parametrize(("word", "found"), [("soft", "soft_closed"), ("off", "")])
def test_people_may_close_themselves(client, clerk, yard, settings, word, found):
    settings.TRAINYARD = {**settings.TRAINYARD, "auto_close": word}
    close_by_calendar(now=FIFTH)
    assert state() == found and not told()
    client.force_login(clerk)
    assert "by itself" not in client.get("/finance/periods/").content.decode()
