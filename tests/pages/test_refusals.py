"""What no page takes: methods it does not have, forms of other sites."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from tests.pages.matrix import ROWS
from tests.pages.test_matrix import address, people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.once]

ELSEWHERE = "https://evil.example"
POSTS = [row for row in ROWS if row.method == "POST"]
TAKE_POST = {row.route for row in POSTS} | {
    "jobs:submit",
    "nodes:enrol",
    "invitation",
    "address_confirm",
    "address_undo",
    "tokens:list",
    "delegations:list",
    "requests:new",
}
# Who comes to their address is led to the page that they answer with.
LED_BACK = {
    **{f"teams:{name}": "teams:detail" for name in ("rename", "cost_centre", "project_create")},
    **{f"teams:{name}": "teams:detail" for name in ("invite", "below")},
    "teams:service_token": "teams:services",
    **{f"finance:price_{name}": "finance:prices" for name in ("act", "end")},
    **{f"finance:card_{name}": "finance:prices" for name in ("new", "act", "end")},
    "finance:end_act": "finance:prices",
    "finance:terms_act": "finance:terms",
    "finance:asset_act": "finance:assets",
    "finance:cost_act": "finance:costs",
    "finance:adjustment_act": "finance:adjustments",
    "finance:budget_remove": "finance:budgets",
    "finance:period_act": "finance:periods",
    "approval_rule_end": "approval_rules",
    **{f"address_{name}": "profile" for name in ("ask", "again", "cancel")},
    "bookings:window": "bookings:list",
}
TAKE_GET = {row.route for row in ROWS if row.method == "GET"} | set(LED_BACK)


def test_methods_that_a_page_does_not_have_are_refused(client, root, things):
    client.force_login(root)
    for row in ROWS:
        url = address(row, things)
        refused = {"PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "PROPFIND"}
        refused |= set() if row.route in TAKE_POST else {"POST"}
        refused |= set() if row.route in TAKE_GET else {"GET", "HEAD"}
        for method in refused:
            assert client.generic(method, url).status_code == 405, (method, row)
            override = client.generic(method, url, HTTP_X_HTTP_METHOD_OVERRIDE=row.method)
            assert override.status_code == 405, (method, row)


def test_who_turns_a_leaf_of_what_answered_a_form_is_led_to_its_page(client, root, things):
    client.force_login(root)
    for row in (one for one in ROWS if one.route in LED_BACK):
        args = [things["team"]] if LED_BACK[row.route].startswith("teams:") else []
        there = reverse(LED_BACK[row.route], args=args)
        answer = client.get(f"{address(row, things)}?members=2")
        assert (answer.status_code, answer.url) == (302, f"{there}?members=2"), row


def test_a_form_needs_its_token_and_its_own_site(root, things):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(root)
    strict.get(reverse("help"))
    token = strict.cookies["csrftoken"].value
    for row in POSTS:
        url = address(row, things)
        right = row.data | {"csrfmiddlewaretoken": token}
        wrong = row.data | {"csrfmiddlewaretoken": token[:-1] + "-"}
        assert strict.post(url, row.data).status_code == 403, row
        assert strict.post(url, wrong).status_code == 403, row
        assert strict.post(url, right, HTTP_ORIGIN=ELSEWHERE).status_code == 403, row
        page = strict.post(url, right, HTTP_ORIGIN="null")
        assert page.status_code == 403, row
        assert "another site" in page.content.decode()
        with transaction.atomic():
            good = strict.post(url, right, HTTP_ORIGIN="http://testserver")
            transaction.set_rollback(True)
        assert good.status_code == row.statuses["root"], row
