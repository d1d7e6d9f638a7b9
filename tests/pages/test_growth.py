"""Pages ask as much of the database with many rows of every kind as with few, stay as small, and
compute no longer than they may."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
from django.test import RequestFactory

from accounts.models import Team
from accounts.services import create_team
from portal.bench.faces.budgets import BUDGETS
from portal.forms.filters import WatchedQuery
from portal.pages.listing.leaves import leaf_of
from tests.pages.filling import LEFT_EMPTY, fill
from tests.pages.growing import Growth
from tests.pages.pace import USUAL_MS, computing, pace
from tests.pages.test_budgets import MOST_ELEMENTS, PAGES, WHO, Elements, statements
from tests.pages.test_matrix import address, people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.timeout(600)]
FEW, MANY = 10, 1000
# The palette lists what it finds.
LARGER = ("search",)
# How often a page is opened before it is called slow, and how much a measurement may be out.
TRIES, MARGIN = 5, 2.0


def test_no_page_asks_more_or_grows_out_of_its_budget_with_rows(client, people, things, project):
    """For whose page it is, and for an administrator, who sees everybody's rows."""
    fill(people, things, project)
    growth, asked, wrong = Growth(), {}, []
    assert growth.empty <= LEFT_EMPTY
    for rows in (FEW, MANY):
        growth.to(rows)
        for row, who in visits():
            client.force_login(people[who])
            with statements() as seen:
                page = client.get(address(row, things), row.data)
            usual = asked.setdefault((row.route, who), len(seen))
            if page.status_code != 200 or len(seen) > min(usual, BUDGETS[row.route].statements):
                wrong.append((row.route, who, rows, page.status_code, usual, len(seen)))
            if rows == MANY and (took := slower_than_wanted(row, client, things)):
                wrong.append((row.route, who, rows, took))
            kib, count = len(gzip.compress(page.content)) / 1024, elements_of(page)
            is_small = kib <= BUDGETS[row.route].kib or row.route in LARGER
            if not is_small or count > MOST_ELEMENTS:
                wrong.append((row.route, who, rows, f"{kib:.1f} KiB", count))
    assert wrong == []


def slower_than_wanted(row, client, things):
    """What it computes at its fastest, told for a usual machine at rest, where that is over the
    page's milliseconds; empty where it is not."""
    wanted, least = BUDGETS[row.route].ms, float("inf")
    for _ in range(TRIES):
        _, took = computing(lambda: client.get(address(row, things), row.data))
        least = min(least, took * USUAL_MS / pace())
        if least <= wanted:
            return ""
    return f"{least:.0f} ms of {wanted}" if least > wanted * MARGIN else ""


def visits():
    for row in PAGES:
        first = next((one for one in WHO if row.statuses[one] == 200), None)
        yield from ((row, who) for who in dict.fromkeys((first, "root")) if may_open(row, who))


def may_open(row, who):
    return who is not None and row.statuses[who] == 200


def elements_of(page):
    return Elements(page.content.decode()).count


def test_a_page_that_takes_too_long_is_told_of(client, people, things, monkeypatch):
    row = next(row for row in PAGES if row.route == "jobs:list")
    client.force_login(people["alice"])
    assert slower_than_wanted(row, client, things) == ""
    monkeypatch.setitem(BUDGETS, row.route, replace(BUDGETS[row.route], ms=1))
    assert slower_than_wanted(row, client, things).endswith(" ms of 1")


def asking(query):
    request = RequestFactory().get(f"/teams/?{query}")
    request.GET = WatchedQuery(query)
    return request


def test_a_long_list_is_shown_in_leaves_that_know_their_neighbours():
    leaf = leaf_of(asking("page=2&q=x&part=live"), range(25), "page", size=10)
    assert list(leaf) == list(range(10, 20)) and len(leaf) == 25
    assert (leaf.first, leaf.last) == (11, 20)
    assert (leaf.previous, leaf.following) == ("?page=1&q=x", "?page=3&q=x")
    last = leaf_of(asking("page=99"), range(25), "page", size=10)
    assert list(last) == list(range(20, 25)) and not last.following
    only = leaf_of(asking(""), [], "page")
    assert (list(only), len(only), only.previous, only.following) == ([], 0, "", "")
    # Where the password was asked again, the answer stands at another address.
    sent = RequestFactory().post("/settings/tokens/", {})
    assert leaf_of(sent, range(25), "page").following == ""
    assert leaf_of(sent, range(25), "page", size=10).following == "/settings/tokens/?page=2"


def test_what_is_not_read_yet_is_cut_by_the_database(root):
    for number in range(25):
        create_team(actor=root, name=f"Team {number:02}")
    teams = Team.objects.order_by("-name")
    with statements() as seen:
        leaf = leaf_of(asking("page=2&q=x"), teams, "page", size=10)
    assert [team.name for team in leaf] == [f"Team {number:02}" for number in range(14, 4, -1)]
    assert (len(leaf), leaf.first, leaf.last, len(seen)) == (25, 11, 20, 1)
    assert (leaf.previous, leaf.following) == ("?page=1&q=x", "?page=3&q=x")
    last = leaf_of(asking("page=99"), teams, "page", size=10)
    assert (len(list(last)), last.first, last.last, last.following) == (5, 21, 25, "")
    none = leaf_of(asking("page=9"), teams.filter(name="x"), "page")
    assert (list(none), len(none), none.first, none.last, none.previous) == ([], 0, 0, 0, "")
    read = Team.objects.order_by("name")
    assert len(read) == 25
    with statements() as seen:
        assert len(leaf_of(asking(""), read, "page", size=10)) == 25
    assert not seen


@pytest.mark.parametrize("value", ["0", "-1", "zz", "1234567", "٣"])
def test_what_is_no_leaf_is_said_and_the_first_one_shown(value):
    request = asking(f"page={value}")
    assert leaf_of(request, range(25), "page", size=10).first == 1
    assert len(request.GET.odd) == 1
