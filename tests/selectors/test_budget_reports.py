"""What budgets are expected to come to: each day that is left once, whichever month is opened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from portal.reports.books.figures import report_pictures
from portal.reports.books.pivots import groups_of
from scheduler.selectors.books.catalogue import open_report
from scheduler.selectors.books.frame import Ask
from scheduler.selectors.books.slugs.budgets import _forecast
from scheduler.selectors.sharing.budgets import budget_views
from scheduler.selectors.sharing.reckoning import foreseen_until
from scheduler.services.sharing.budgets import set_budget
from tests.scenes import at
from tests.services.test_books import clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
DAY_S = 86_400
NOVEMBER, DECEMBER = (datetime(2026, month, 1, tzinfo=UTC) for month in (11, 12))


def forecasts(viewer, month, now_s):
    """Lowest, mean and highest by budget, in its own measure."""
    report, sheet = open_report(viewer, "budget-actual", Ask(month, now_s=now_s))
    names = [column.name for column in report.columns]
    rows = [dict(zip(names, row.cells, strict=True)) for row in sheet.rows(0)]
    return {
        row["budget"]: tuple(row[f"forecast{which}_amount"] for which in ("_low", "", "_high"))
        for row in rows
    }


@pytest.fixture
def quarter(root, yard, team):
    return set_budget(
        actor=root, owner=team, amount=Decimal(100), valid_from=NOVEMBER - timedelta(days=31),
        valid_until=DECEMBER + timedelta(days=31), now=at(DAY_S),
    )  # fmt: skip


def test_a_forecast_is_the_same_whichever_month_is_opened(root, clerk, quarter):
    """It opens with the last closed month: days until now were counted as used and as to come."""
    close(root, month="2026-10", now=at(DAY_S))
    now_s = int(at(DAY_S).timestamp())
    (found,) = {forecasts(root, month, now_s)[quarter.pk] for month in ("2026-10", "2026-11")}
    # 7.20 on a Friday, after three without; five Fridays are left.
    assert found == (Decimal("7.2"), Decimal("16.2"), Decimal("43.2"))


def test_a_budget_that_begins_later_is_charged_for_its_own_days_alone(root, yard, team):
    later = set_budget(
        actor=root, owner=team, amount=Decimal(100), valid_from=DECEMBER - timedelta(days=3),
        valid_until=DECEMBER, now=at(DAY_S),
    )  # fmt: skip
    now_s = int(at(DAY_S).timestamp())
    # From Saturday the 28th on: no Friday.
    assert forecasts(root, "2026-11", now_s)[later.pk] == (0, 0, 0)


def test_budgets_within_each_other_are_drawn_one_by_one_and_not_added_up(root, yard, team, project):
    months = {"valid_from": NOVEMBER, "valid_until": DECEMBER, "now": at(DAY_S)}
    for owner in (team, project):
        set_budget(actor=root, owner=owner, gpu_hours=100, **months)
    report, sheet = open_report(root, "budget-actual", Ask("2026-11"))
    assert not sheet.totals and not groups_of(report)
    (picture,) = report_pictures(report, sheet)
    bars = picture.figure["data"][0]
    assert dict(zip(bars["y"], bars["x"], strict=True)) == {team.slug: 2, project.path: 2}


def test_a_forecast_until_the_year_9999_takes_weeks_at_once():
    now_s = int(at(DAY_S).timestamp())
    friday = now_s - now_s % DAY_S - DAY_S
    weeks = 8_000 * 52
    until_s = now_s + weeks * 7 * DAY_S
    assert _forecast({friday: 40}, now_s, 0, until_s) == (0, 10 * weeks, 40 * weeks)
    # From noon of one Saturday to noon of the next Friday.
    assert _forecast({friday: 40}, now_s, 0, until_s + 6 * DAY_S)[1] == 10 * weeks + 5
    assert _forecast({friday: 40}, now_s, until_s, now_s) == (0, 0, 0)


def test_a_budget_without_end_is_foreseen_to_the_end_of_this_month_alone(root, yard, team):
    """7.20 on a Friday, after three without; one Friday of the month is left."""
    endless = set_budget(
        actor=root, owner=team, amount=Decimal(1000), valid_from=NOVEMBER,
        valid_until=datetime(2126, 1, 1, tzinfo=UTC), now=at(DAY_S),
    )  # fmt: skip
    now_s = int(at(DAY_S).timestamp())
    assert forecasts(root, "2026-11", now_s)[endless.pk] == (None, None, None)
    _, sheet = open_report(root, "budget-actual", Ask("2026-11", now_s=now_s))
    assert {whose for whose, _ in sheet.notes} == {f"Budget {endless.pk} of {team.slug}"}
    (note,) = (words for _, words in sheet.notes if "no end" in words)
    assert "by 1 Dec 2026 it comes to 9.00 EUR" in note
    (view,) = budget_views(root, now=at(DAY_S), only=[endless.pk])
    assert (view.is_endless, view.texts["low"], view.out_on) == (True, "9.00", None)
    assert foreseen_until(endless, at(DAY_S)) == DECEMBER


def test_what_is_far_ahead_of_a_budget_without_end_is_a_day_at_most(root, yard, team):
    """1.80 a week take what is left of 20 within half a year."""
    endless = set_budget(
        actor=root, owner=team, amount=Decimal(20), valid_from=NOVEMBER,
        valid_until=datetime(2126, 1, 1, tzinfo=UTC), now=at(DAY_S),
    )  # fmt: skip
    (view,) = budget_views(root, now=at(DAY_S), only=[endless.pk])
    assert view.out_on is not None and f"{view.out_on:%Y-%m %a}" == "2027-01 Fri"
    assert view.texts["low"] == "9.00"
