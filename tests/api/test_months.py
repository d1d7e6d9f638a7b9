"""Months and amounts by hand over REST: the same rights, stamps and refusals as on the pages."""

from __future__ import annotations

import json

import pytest

from scheduler.models import LedgerEntry, Period
from scheduler.services.books import do_countings
from tests.api.conftest import problem_of
from tests.services.test_books import DECEMBER as _DECEMBER
from tests.services.test_books import clerk, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]


@pytest.fixture
def send(client, yard, clerk):
    def post(user, path, body=None):
        client.force_login(user)
        address = f"/api/v1/finance/{path}"
        return client.post(address, json.dumps(body or {}), content_type="application/json")

    return post


def month_seen(client, user, name="2026-11"):
    client.force_login(user)
    items = client.get("/api/v1/finance/periods/").json()["items"]
    return next(item for item in items if item["month"] == name)


def test_a_month_is_closed_reopened_by_two_and_closed_again(send, client, root, clerk, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: _DECEMBER)
    before = month_seen(client, root)
    assert (before["state"], before["version"], before["closes"]) == ("open", 0, [])
    closed = send(clerk, "periods/2026-11/close/", {"seen": before["seen"]}).json()
    assert (closed["state"], closed["version"]) == ("closed", 1)
    assert closed["closes"][0]["control"] == "10.800000000000000"
    # What was decided on is no more.
    stale = send(root, "periods/2026-11/close/", {"seen": before["seen"]})
    assert problem_of(stale, 409)["code"] == "stale_version"
    again = send(root, "periods/2026-11/close/")
    assert problem_of(again, 409)["code"] == "close_blocked"
    proposed = send(clerk, "periods/2026-11/reopen/", {"reason": "a late fact"}).json()
    assert proposed["state"] == "closed"
    declined = send(root, "periods/2026-11/reopen/", {"decline": True, "seen": proposed["seen"]})
    assert (declined.status_code, declined.json()["state"]) == (200, "closed")
    assert problem_of(send(root, "periods/2026-11/reopen/", {"decline": True}), 409)
    send(clerk, "periods/2026-11/reopen/", {"reason": "a late fact"})
    assert send(root, "periods/2026-11/reopen/").json()["state"] == "reopened"
    assert send(clerk, "periods/2026-11/close/").json()["version"] == 2
    nothing = send(clerk, "periods/2026-11/correct/", {"reason": "looked again"}).json()
    assert nothing == {"month": "2026-11", "entries": 0}


def test_an_amount_is_proposed_by_one_and_posted_by_another(send, client, root, clerk, project):
    body = {"project": project.path, "amount": "-1.50", "reason": "a day lost to cooling"}
    made = send(clerk, "adjustments/", body)
    assert made.status_code == 201
    row = made.json()
    assert (row["amount"], row["entry"]) == ("-1.500000000000000", None)
    problem_of(send(clerk, f"adjustments/{row['id']}/post/"), 403)
    posted = send(root, f"adjustments/{row['id']}/post/").json()
    assert posted["entry"] == LedgerEntry.objects.get().number
    problem_of(send(root, f"adjustments/{row['id']}/post/"), 409)
    problem_of(send(root, f"adjustments/{row['id']}/decline/"), 409)
    other = send(clerk, "adjustments/", body).json()
    assert send(clerk, f"adjustments/{other['id']}/decline/").json()["decided_by"] == "finance"
    assert len(client.get("/api/v1/finance/adjustments/").json()["items"]) == 2


def test_others_see_and_change_nothing(send, client, root, alice, operator, project):
    for person in (alice, operator):
        for path in ("periods/2026-11/close/", "periods/2026-11/correct/", "adjustments/1/post/"):
            problem_of(send(person, path, {"reason": "x"} if "correct" in path else {}), 403)
        problem_of(client.get("/api/v1/finance/periods/"), 403)
        problem_of(client.get("/api/v1/finance/adjustments/"), 403)
    problem_of(send(root, "adjustments/987654/post/"), 404)
    assert not LedgerEntry.objects.exists()


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("adjustments/", {"amount": "1,50"}, "amount"),
        ("adjustments/", {"amount": "0"}, "amount"),
        ("adjustments/", {"amount": "1.0000000000000001"}, "amount"),
        ("adjustments/", {"amount": "NaN"}, "amount"),
        ("adjustments/", {"project": "no/where"}, "project"),
        ("adjustments/", {"reason": ""}, "reason"),
        ("adjustments/", {"currency": "USD"}, "currency"),
        ("periods/2026-13/close/", None, "period"),
        ("periods/2026-11/correct/", None, "reason"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(send, root, project, path, body, field):
    whole = {"project": project.path, "amount": "1", "reason": "why"}
    answer = send(root, path, None if body is None else {**whole, **body})
    assert answer.status_code in (400, 422), answer.content
    assert field in answer.content.decode()
    assert not LedgerEntry.objects.exists()
    assert not Period.objects.exclude(state="open").exists()


def test_a_large_month_is_counted_in_the_background(send, client, root, clerk, monkeypatch):
    monkeypatch.setattr("django.utils.timezone.now", lambda: _DECEMBER)
    monkeypatch.setattr("scheduler.services.books.counting.AT_ONCE", 0)
    asked = send(clerk, "periods/2026-11/close/", {"seen": "open.0.0"})
    assert asked.status_code == 202
    assert asked.json()["counting"]["ended_at"] is None
    assert asked.json()["counting"]["asked_by"] == clerk.username
    twice = send(root, "periods/2026-11/correct/", {"reason": "late"})
    assert problem_of(twice, 409)["code"] == "conflict"
    assert do_countings() == 1
    month = month_seen(client, root)
    assert (month["state"], month["counting"]["is_refused"]) == ("closed", False)
    corrected = send(clerk, "periods/2026-11/correct/", {"reason": "late"})
    assert corrected.status_code == 202
    do_countings()
    assert month_seen(client, root)["counting"]["says"] == "Nothing differs."
