"""The picture beside a report draws what the report is about, as its table says it, and says it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from portal.reports.books.figures import report_pictures
from portal.reports.books.pivots import Pivot, pivoted
from scheduler.selectors.books.catalogue import REPORTS, open_report
from scheduler.selectors.books.frame import Ask, sheet_of
from scheduler.services.sharing.budgets import set_budget
from tests.scenes import at
from tests.selectors.test_reports import closed
from tests.services.test_books import clerk, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "closed", "yard"]
DAY_S = 86_400
NOVEMBER, DECEMBER = (datetime(2026, month, 1, tzinfo=UTC) for month in (11, 12))


def pictures(viewer, slug, **asked):
    return report_pictures(*open_report(viewer, slug, Ask("2026-11", **asked)))


def made_of(slug, rows, currency="EUR"):
    """The pictures of rows by column; what they do not name is empty."""
    report = REPORTS[slug]
    names = [column.name for column in report.columns]
    cells = [tuple(row.get(name) for name in names) for row in rows]
    sheet = sheet_of(report.columns, cells, Ask("2026-11"), (), currency=currency)
    return report, sheet


def drawn(picture):
    """Lengths by name of bar and of part."""
    return {
        trace["name"]: dict(zip(trace["y"], trace["x"], strict=True))
        for trace in picture.figure["data"]
    }


def test_budgets_are_drawn_with_what_they_are_held_against_by_measure(root, yard, team, project):
    months = {"valid_from": NOVEMBER, "valid_until": DECEMBER, "now": at(DAY_S)}
    set_budget(actor=root, owner=team, gpu_hours=100, **months)
    set_budget(actor=root, owner=project, amount=Decimal(50), **months)
    report, sheet = open_report(
        root, "budget-actual", Ask("2026-11", now_s=int(at(DAY_S).timestamp()))
    )
    names = [column.name for column in report.columns]
    rows = {row.cells[names.index("project")]: row.cells for row in sheet.rows(0)}
    hours, money = report_pictures(report, sheet)
    assert (hours.unit, money.unit) == ("GPU-h", "EUR")
    for picture, name, key, unit, per in (
        (hours, team.slug, "", "gpu_seconds", 3600),
        (money, project.path, project.slug, "amount", 1),
    ):
        shown = drawn(picture)
        assert list(shown) == ["actual", "committed", "budget", "forecast"]
        for part, lengths in shown.items():
            cell = rows[key][names.index(f"{part}_{unit}")]
            assert lengths == {name: pytest.approx(float(cell) / per, abs=0.01)}, part
        assert [trace["type"] for trace in picture.figure["data"]] == ["bar"] * 2 + ["scatter"] * 2
        assert picture.figure["layout"]["showlegend"]
        assert picture.summary.startswith(f"{name}: actual ")
        assert all(f", {part} " in picture.summary for part in ("committed", "budget", "forecast"))
    assert "budget 100.0 GPU-h" in hours.summary and "budget 50.00 EUR" in money.summary


def test_two_budgets_of_one_team_are_two_bars_and_one_without_end_has_no_forecast(root, yard, team):
    first = set_budget(
        actor=root, owner=team, gpu_hours=10, valid_from=NOVEMBER, valid_until=at(2 * DAY_S),
        now=at(DAY_S),
    )  # fmt: skip
    second = set_budget(
        actor=root, owner=team, gpu_hours=20, valid_from=at(2 * DAY_S),
        valid_until=datetime(2126, 1, 1, tzinfo=UTC), now=at(DAY_S),
    )  # fmt: skip
    (picture,) = pictures(root, "budget-actual", now_s=int(at(DAY_S).timestamp()))
    names = [f"{team.slug}, {budget.pk}" for budget in (first, second)]
    shown = drawn(picture)
    assert shown["budget"] == dict(zip(names, (10, 20), strict=True))
    assert shown["forecast"][names[1]] is None
    of_second = next(part for part in picture.summary.split("; ") if part.startswith(names[1]))
    assert "budget 20.0 GPU-h" in of_second and "forecast" not in of_second


def test_a_budget_of_the_organisation_and_currencies_stand_apart():
    row = {"budget": 1, "team": "", "project": "", "currency": "EUR"}
    row |= {f"{part}_amount": Decimal(10) for part in ("actual", "committed", "budget", "forecast")}
    other = {**row, "budget": 2, "team": "vision", "currency": "USD"}
    euros, dollars = report_pictures(*made_of("budget-actual", [row, other], ""))
    assert (euros.unit, dollars.unit) == ("EUR", "USD")
    assert list(drawn(euros)["actual"]) == ["the organisation"]
    assert list(drawn(dollars)["actual"]) == ["vision"]


def test_cost_per_unit_draws_what_one_attempt_cost_and_sums_have_their_own():
    rows = [
        {"label": "many", "runs": 10, "amount": Decimal(20), "per_run": Decimal(2)},
        {"label": "few", "runs": 2, "amount": Decimal("6.4"), "per_run": Decimal("3.2")},
        {"label": "shares", "runs": 0, "amount": Decimal(1), "per_run": None},
    ]
    report, sheet = made_of("unit-cost", rows)
    (picture,) = report_pictures(report, sheet)
    (bars,) = picture.figure["data"]
    assert dict(zip(bars["y"], bars["x"], strict=True)) == {"many": 2, "few": 3.2}
    assert picture.figure["layout"]["xaxis"]["title"]["text"] == "Cost per attempt, EUR"
    assert picture.summary == "few: cost per attempt 3.20 EUR; many: cost per attempt 2.00 EUR."
    grouped, groups = pivoted(report, sheet, Ask("2026-11"), Pivot("label"))
    assert report_pictures(grouped, groups)[0].summary == picture.summary


def test_use_and_waste_are_days_in_order_and_weeks_where_they_are_asked_for():
    rows = [
        {
            "day": date(2026, 11, 2) + timedelta(days=n), "week": f"2026-W{45 + n // 7}",
            "team": "vision", "project": "digits", "held_gpu_seconds": 7_200,
            "work_gpu_seconds": 5_400, "idle_gpu_seconds": 1_800,
        }
        for n in (8, 1, 0)
    ]  # fmt: skip
    report, sheet = made_of("use-and-waste", rows)
    (picture,) = report_pictures(report, sheet)
    work, idle = picture.figure["data"]
    assert (work["name"], idle["name"]) == ("at work", "held, idle")
    assert work["x"] == ["2026-11-02", "2026-11-03", "2026-11-10"]
    assert work["y"] == [1.5] * 3 and idle["y"] == [0.5] * 3
    assert picture.summary == (
        "2 Nov 2026 to 10 Nov 2026, in all: at work 4.5 GPU-h, held and idle 1.5 GPU-h. "
        "The table above has each."
    )
    weeks, by_week = pivoted(report, sheet, Ask("2026-11"), Pivot("week"))
    (picture,) = report_pictures(weeks, by_week)
    assert picture.figure["data"][0]["x"] == ["2026-W45", "2026-W46"]
    assert picture.figure["data"][0]["y"] == [3, 1.5]


def test_what_is_recovered_stands_against_what_pools_cost():
    rows = [{"sku": "H100:run-guaranteed", "charged": Decimal(90), "platform": Decimal(0)}]
    (without,) = report_pictures(*made_of("rate-variance", rows))
    assert list(drawn(without)) == ["charged", "paid by the platform"]
    (picture,) = report_pictures(
        *made_of("rate-variance", [{**rows[0], "pool_cost": Decimal(100)}])
    )
    (cost,) = drawn(picture)["pool cost"].values()
    assert cost == 100 and picture.figure["data"][-1]["mode"] == "markers"


def test_every_second_of_the_cluster_is_drawn(root, closed):
    report, sheet = open_report(root, "capacity", Ask("2026-11"))
    (picture,) = report_pictures(report, sheet)
    whole = sum(sum(trace["y"]) for trace in picture.figure["data"])
    assert whole == pytest.approx(sheet.totals["in_service_gpu_seconds"] / 3600, abs=0.01)
    days = {day: Decimal(0) for day in picture.figure["data"][0]["x"]}
    assert list(days) == sorted(days) and len(days) > 7
    pools, by_pool = pivoted(report, sheet, Ask("2026-11"), Pivot("pool"))
    (picture,) = report_pictures(pools, by_pool)
    assert picture.figure["data"][0]["orientation"] == "h"


def test_the_page_says_the_picture_and_its_unit(client, root, closed):
    client.force_login(root)
    page = client.get("/finance/reports/period-summary/?period=2026-11").content.decode()
    assert 'aria-label="Period summary. vision/digits: guaranteed 7.20 EUR, ' in page
    assert '<b>Period summary</b> <span class="muted">EUR</span>' in page


def test_across_a_column_each_of_its_values_is_a_part(root, closed):
    report, sheet = open_report(root, "period-summary", Ask("2026-11"))
    (whole,) = report_pictures(report, sheet)
    assert "guaranteed" in drawn(whole)
    pivot = Pivot("team", "project", "total")
    found, groups = pivoted(report, sheet, Ask("2026-11"), pivot)
    (picture,) = report_pictures(found, groups)
    told = sum(sum(filter(None, trace["x"])) for trace in picture.figure["data"])
    assert told == pytest.approx(float(sheet.totals["total"]), abs=0.05)
    assert len(picture.figure["data"]) > 1


def test_reserved_and_idle_are_both_waste():
    rows = [
        {"what": "sleepy", "person": "alice", "idle_gpu_seconds": 3_600,
         "reserved_idle_gpu_seconds": 0},
        {"what": "reserved and not used", "idle_gpu_seconds": 0,
         "reserved_idle_gpu_seconds": 7_200},
    ]  # fmt: skip
    (picture,) = report_pictures(*made_of("idle-waste", rows))
    assert drawn(picture)["reserved idle"] == {"sleepy": 0, "reserved and not used": 2}
    assert list(picture.figure["data"][0]["y"]) == ["sleepy", "reserved and not used"]
