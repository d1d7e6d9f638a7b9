"""Costs: the rows tie to the total, strangers see nothing, the file is safe to open."""

from __future__ import annotations

import csv
import io
from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.pages.using.times import days_of, words_of
from scheduler.services.usage import accrue_usage
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db

URL = "/usage/"


def lately() -> dict[str, str]:
    """Yesterday and today: what has just run may have run last month."""
    today = timezone.now().date()
    return {"from": str(today - timedelta(days=1)), "to": str(today)}


@pytest.fixture
def yard(root, alice, project):
    yard = build_yard(root, alice, project)
    accrue_usage(now=timezone.now())
    return yard


@pytest.mark.parametrize("by", ["project", "team", "user", "device_model"])
def test_rows_tie_to_the_total(client, finance, yard, by):
    client.force_login(finance)
    page = client.get(URL, {"by": by, **lately()})
    rows, total = page.context["rows"], page.context["total"]
    assert total.cost == sum(row.cost for row in rows) > 0
    assert total.gpu_seconds == sum(row.gpu_seconds for row in rows) >= 184
    assert total.cost == Decimal(total.gpu_seconds) * Decimal("3.60") / 3600


def test_stranger_sees_no_row(client, carol, yard):
    client.force_login(carol)
    page = client.get(URL)
    assert list(page.context["rows"]) == []
    assert "no usage you may see" in page.content.decode()


def test_csv_has_the_same_rows(client, finance, yard):
    client.force_login(finance)
    page = client.get(URL, {"by": "project", "format": "csv", **lately()})
    assert page["Content-Disposition"].startswith('attachment; filename="costs-by-project-')
    text = page.getvalue().decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["project"] for row in rows] == ["vision/digits", "total"]
    assert Decimal(rows[0]["cost"]) == Decimal(rows[1]["cost"]) > 0
    assert "E" not in rows[0]["cost"]


@pytest.mark.parametrize(
    "query",
    [
        {"by": "planet"},
        {"from": "soon"},
        {"from": "2026-13-01"},
        {"from": "0001-01-01"},
        {"from": "2026-11-20", "to": "2026-11-01"},
        {"to": "9999-12-31"},
        {"from": "2000-01-01", "to": "2999-12-31"},
        {"format": "exe"},
    ],
)
def test_wrong_values_are_named_on_a_page(client, finance, yard, query):
    client.force_login(finance)
    page = client.get(URL, query)
    assert page.status_code == 200
    assert any(problem.split(":")[0] in query for problem in page.context["problems"])


def test_costs_need_a_session(client, yard):
    assert client.get(reverse("costs:overview")).status_code == 302


@pytest.mark.parametrize("by", ["day", "week", "month"])
def test_the_same_costs_by_time(client, finance, yard, by):
    client.force_login(finance)
    known = client.get(URL, {"by": "project", **lately()}).context["total"]
    page = client.get(URL, {"by": by, **lately()})
    total = page.context["total"]
    assert (total.cost, total.gpu_seconds) == (known.cost, known.gpu_seconds)
    rows = list(csv.DictReader(io.StringIO(csv_of(client, URL, by))))
    assert sum(Decimal(row["cost"]) for row in rows[:-1]) == total.cost
    assert [row[by] for row in rows[:-1]] == sorted((r[by] for r in rows[:-1]), reverse=True)
    assert {row["jobs"] for row in rows} == {""}


def csv_of(client, url, by, **more):
    page = client.get(url, {"by": by, "format": "csv", **lately(), **more})
    return page.getvalue().decode("utf-8-sig")


WASTE = "/usage/waste/"


@pytest.mark.parametrize("by", ["day", "week", "month"])
def test_use_and_waste_add_up_on_the_page_and_in_its_file(client, lead, yard, by):
    client.force_login(lead)
    page = client.get(WASTE, {"by": by, **lately()})
    assert not page.context["problems"]
    assert all(holds for holds, _ in page.context["checks"])
    totals, parts = page.context["totals"], page.context["parts"]
    assert totals["held_gpu_seconds"] == sum(p.sums["held_gpu_seconds"] for p in parts) >= 184
    *rows, total = csv.DictReader(io.StringIO(csv_of(client, WASTE, by)))
    for name in ("held_gpu_seconds", "idle_gpu_seconds", "amount", "idle_amount"):
        # A second may have passed: one of the jobs runs.
        assert sum(Decimal(row[name]) for row in rows) == Decimal(total[name]) >= totals[name]
    assert {row["cost_is"] for row in rows} == {"so far"}


def test_who_leads_nothing_sees_the_waste_of_own_jobs(client, alice, carol, yard):
    for person, has_rows in ((alice, True), (carol, False)):
        client.force_login(person)
        page = client.get(WASTE)
        assert page.context["whose"] == "your own jobs"
        assert bool(page.context["parts"]) is has_rows


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"by": "hour"}, "by: 'hour' is no length of time; choose from day, week, month."),
        ({"from": "soon"}, "from: 'soon' is not a day"),
        ({"from": "2020-01-01", "to": "2024-01-01"}, "from: Ask for 366 days at most."),
        ({"format": "exe"}, "format: choose html or csv."),
        ({"scope": "team:nobodys"}, "scope: there is no 'team:nobodys' for you"),
    ],
)
def test_a_wrong_wish_about_waste_is_named(client, lead, yard, query, words):
    client.force_login(lead)
    page = client.get(WASTE, query)
    assert page.status_code == 200
    assert any(problem.startswith(words) for problem in page.context["problems"])


def test_weeks_are_said_as_people_write_them():
    cases = {
        ("week", "2026-11-25"): "23 – 29 Nov 2026",
        ("week", "2026-12-01"): "30 Nov – 6 Dec 2026",
        ("week", "2027-01-01"): "28 Dec 2026 – 3 Jan 2027",
        ("month", "2028-02-10"): "February 2028",
        ("day", "2026-11-05"): "5 Nov 2026",
    }
    for (span, day), words in cases.items():
        assert words_of(span, *days_of(span, date.fromisoformat(day))) == words
