"""Costs: the rows tie to the total, strangers see nothing, the file is safe to open."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

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
