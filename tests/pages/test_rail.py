"""Where one is: every page marks its entry of the navigation, and no other."""

from __future__ import annotations

import pytest
from django.urls import reverse

from portal.templatetags.sections import ENTRIES, IN_MENUS, entry_of
from tests.pages.test_budgets import PAGES, WHO
from tests.pages.test_matrix import address, people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.once]
HERE = 'aria-current="page"'
# Of those in front of the sign-in, and what a page fetches for itself.
WITHOUT = {
    *("account_login", "account_reset_password", "address_confirm", "address_undo", "invitation"),
    *("jobs:glance", "jobs:why", "jobs:progress", "jobs:log_find", "jobs:log_lines"),
}
# Reached from every page alike.
OF_NO_ENTRY = {"search", "notifications:list"}


def part(text: str, begin: str) -> str:
    return text.partition(begin)[2].partition("</nav>")[0]


def marked(rail: str) -> list[str]:
    """Addresses of the entries that are said to be this page."""
    links = [link.partition(">")[0] for link in rail.split("<a ")[1:]]
    return [link.partition('href="')[2].partition('"')[0] for link in links if HERE in link]


def test_every_page_marks_its_entry_of_the_rail_and_at_most_one_of_the_phones(
    client, people, things
):
    wrong, seen = [], set()
    for row in PAGES:
        for who in (one for one in WHO if row.statuses[one] == 200):
            client.force_login(people[who])
            text = client.get(address(row, things), row.data).content.decode()
            if '<nav class="rail"' not in text:
                continue
            seen.add(row.route)
            rail, tabs = marked(part(text, '<nav class="rail"')), part(text, '<nav class="tabbar"')
            own = [] if row.route in OF_NO_ENTRY else [reverse(entry_of(row.route))]
            is_its = (row.route == "requests:detail" and len(rail) == 1) or rail == own
            if not is_its or tabs.count(HERE) > 1:
                wrong.append((row.route, who, rail, tabs.count(HERE)))
    assert wrong == []
    assert {row.route for row in PAGES} - seen <= WITHOUT


def test_a_request_belongs_to_where_one_has_come_from(client, people, things):
    row = next(row for row in PAGES if row.route == "requests:detail")
    for who, place in (("alice", "requests:list"), ("root", "approvals")):
        client.force_login(people[who])
        text = client.get(address(row, things)).content.decode()
        assert marked(part(text, '<nav class="rail"')) == [reverse(place)]


def test_pages_of_an_office_are_marked_in_an_open_group(client, people):
    client.force_login(people["root"])
    for page in ("users:list", "audit:list", "announcements:list", "webhooks:list", "roles:list"):
        rail = part(client.get(reverse(page)).content.decode(), '<nav class="rail"')
        assert "<details open>" in rail and marked(rail) == [reverse(page)]
    rail = part(client.get(reverse("jobs:list")).content.decode(), '<nav class="rail"')
    assert "<details>" in rail and marked(rail) == [reverse("jobs:list")]
    client.force_login(people["alice"])
    text = client.get(reverse("api_docs")).content.decode()
    assert "<details" not in part(text, '<nav class="rail"')
    assert marked(part(text, '<nav class="rail"')) == [reverse("api_docs")]


def test_every_entry_is_a_page():
    for name in {*ENTRIES.values(), *IN_MENUS.values()}:
        assert reverse(name)
