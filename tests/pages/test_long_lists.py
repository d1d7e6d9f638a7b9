"""Lists that ended without a word once: months of the books, projects to keep a secret for."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from accounts.models import Project
from portal.forms.secrets import MOST_OFFERED
from portal.pages.finance.periods import MONTHS
from scheduler.models import Period, Secret

pytestmark = pytest.mark.django_db


@pytest.fixture
def years(db):
    """Five of closed months."""
    names = [f"{year}-{month:02d}" for year in range(2021, 2026) for month in range(1, 13)]
    Period.objects.bulk_create(
        Period(name=name, state="closed", version=1, currency="EUR") for name in names
    )
    return names


def months_on(page):
    return re.findall(r'<section class="panel" id="m([\d-]+)"', page.content.decode())


def test_months_lead_on_to_the_first(client, root, years):
    client.force_login(root)
    address = reverse("finance:periods")
    seen, query = [], "?page=1"
    while query:
        page = client.get(address + query)
        assert len(months_on(page)) <= MONTHS
        seen += months_on(page)
        following = re.search(r'rel="next" href="([^"]+)"', page.content.decode())
        query = following and following[1].replace("&amp;", "&")
    assert seen == sorted(set(seen), reverse=True) and set(years) < set(seen)


def test_a_month_that_is_tried_leads_back_to_all(client, root, years):
    client.force_login(root)
    tried = client.post(reverse("finance:period_act", args=["2025-12", "check"]))
    assert f'href="{reverse("finance:periods")}">All months' in tried.content.decode()


def test_months_over_rest_come_in_parts(client, root, years):
    client.force_login(root)
    seen, cursor = [], ""
    while cursor is not None:
        query = {"limit": "25", **({"cursor": cursor} if cursor else {})}
        page = client.get("/api/v1/finance/periods/", query).json()
        seen += [one["month"] for one in page["items"]]
        cursor = page["next_cursor"]
    assert seen == sorted(set(seen), reverse=True) and set(years) < set(seen)


def test_of_many_projects_one_is_typed(client, root, team, project):
    Project.objects.bulk_create(
        Project(team=team, name=f"P{n}", name_key=f"p{n}", slug=f"p{n}")
        for n in range(MOST_OFFERED)
    )
    client.force_login(root)
    address = reverse("secrets:list")
    page = client.get(address).content.decode()
    assert "<select" not in page.partition('<form method="post" class="stack-s"')[2]
    assert f"One of {MOST_OFFERED + 1}, as team/project" in page
    sent = {"name": "hub", "value": "x" * 9}
    wrong = client.post(address, {**sent, "project": "no/where"})
    assert "no such project" in str(wrong.context["form"].errors["project"])
    assert client.post(address, {**sent, "project": project.path}).status_code == 302
    assert Secret.objects.get().project == project
