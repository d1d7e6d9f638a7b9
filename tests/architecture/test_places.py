"""No page is forgotten by the tests in a browser, nor by the gallery."""

from __future__ import annotations

from collections import defaultdict
from urllib.parse import urlsplit

from django.urls import resolve

from portal.bench.faces.budgets import BUDGETS
from tests.browser.places import ELSEWHERE, PLACES, PUBLIC

_THINGS: defaultdict[str, str] = defaultdict(lambda: "1")


def route_of(address: str) -> str:
    return resolve(urlsplit(address.format_map(_THINGS)).path).view_name


def test_every_page_with_a_budget_is_visited_in_a_browser():
    visited = {route_of(one) for each in (PUBLIC, *PLACES.values()) for one in each}
    assert set(BUDGETS) - visited == set(ELSEWHERE)


def test_nobody_visits_a_page_twice():
    listed = [one for each in (PUBLIC, *PLACES.values()) for one in each]
    assert len(set(listed)) == len(listed)
