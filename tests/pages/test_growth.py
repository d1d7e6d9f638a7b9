"""Pages ask as much of the database with many rows of every kind as with few, and stay as small."""

from __future__ import annotations

import gzip

import pytest
from django.test import RequestFactory

from portal.bench.faces.budgets import BUDGETS
from portal.forms.filters import WatchedQuery
from portal.pages.listing.leaves import leaf_of
from tests.pages.growing import Growth
from tests.pages.test_budgets import MOST_ELEMENTS, PAGES, WHO, Elements, statements
from tests.pages.test_matrix import address, people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.timeout(600)]
FEW, MANY = 10, 1000


def test_no_page_asks_more_or_grows_out_of_its_budget_with_rows(client, people, things):
    growth, asked, wrong = Growth(), {}, []
    for rows in (FEW, MANY):
        growth.to(rows)
        for row in PAGES:
            who = next((one for one in WHO if row.statuses[one] == 200), None)
            if who is None:
                continue
            client.force_login(people[who])
            with statements() as seen:
                page = client.get(address(row, things), row.data)
            kib = len(gzip.compress(page.content)) / 1024
            count = Elements(page.content.decode()).count
            budget = BUDGETS[row.route]
            is_small = kib <= budget.kib or row.route == "search"
            usual = asked.setdefault(row.route, len(seen))
            if page.status_code != 200 or len(seen) > min(usual, budget.statements):
                wrong.append((row.route, rows, page.status_code, usual, len(seen)))
            if not is_small or count > MOST_ELEMENTS:
                wrong.append((row.route, rows, f"{kib:.1f} KiB", count))
    assert wrong == []


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


@pytest.mark.parametrize("value", ["0", "-1", "zz", "1234567", "٣"])
def test_what_is_no_leaf_is_said_and_the_first_one_shown(value):
    request = asking(f"page={value}")
    assert leaf_of(request, range(25), "page", size=10).first == 1
    assert len(request.GET.odd) == 1
