"""Assets and costs of pools over REST."""

from __future__ import annotations

import json

import pytest

from accounts.services import appoint_bookkeeper
from tests.api.conftest import problem_of

ASSET = {"pool": "default", "name": "cards", "paid": "36500", "since": "2026-11-01", "months": 12}
COST = {"pool": "default", "month": "2026-11", "kind": "energy", "amount": "12.5", "note": "meter"}


@pytest.fixture
def send(client, cluster, root, finance):
    appoint_bookkeeper(actor=root, user=finance)

    def post(user, path, body=None):
        client.force_login(user)
        return client.post(
            f"/api/v1/finance/{path}", json.dumps(body or {}), content_type="application/json"
        )

    return post


def test_a_purchase_is_proposed_approved_and_retired(send, client, root, finance):
    made = send(finance, "assets/", ASSET).json()
    assert (made["decision"], made["cost"]) == ("proposed", "36500.000000000000000")
    problem_of(send(finance, f"assets/{made['id']}/approve/"), 403)
    assert send(root, f"assets/{made['id']}/approve/").json()["decision"] == "approved"
    problem_of(send(root, f"assets/{made['id']}/decline/"), 409)
    gone = send(root, f"assets/{made['id']}/retire/", {"on": "2026-12-01", "reason": "water"})
    assert (gone.json()["retire_on"], gone.json()["retired_on"]) == ("2026-12-01", None)
    problem_of(send(root, f"assets/{made['id']}/retire/approve/"), 403)
    kept = send(finance, f"assets/{made['id']}/retire/decline/")
    assert kept.json()["retire_on"] is None
    problem_of(send(finance, f"assets/{made['id']}/retire/approve/"), 409)
    send(root, f"assets/{made['id']}/retire/", {"on": "2026-12-02", "reason": "water"})
    gone = send(finance, f"assets/{made['id']}/retire/approve/")
    assert gone.json()["retired_on"] == "2026-12-02"
    assert len(client.get("/api/v1/finance/assets/").json()["items"]) == 1


def test_a_cost_is_booked_once_it_is_approved(send, client, root, finance):
    made = send(finance, "costs/", COST).json()
    assert send(root, f"costs/{made['id']}/approve/").json()["decision"] == "approved"
    other = send(finance, "costs/", {**COST, "amount": "-2"}).json()
    assert send(root, f"costs/{other['id']}/decline/").json()["decision"] == "declined"
    problem_of(client.get("/api/v1/finance/recovery/?month=2026-11"), 409)
    problem_of(client.get("/api/v1/finance/recovery/?month=2031-11"), 404)
    changed = send(finance, "charging/2026-11/", {"charging": "chargeback"})
    assert changed.json() == {"period": "2026-11", "charging": "chargeback"}


def test_others_see_and_change_nothing(send, client, root, finance, alice, operator):
    made = send(finance, "assets/", ASSET).json()
    for person in (alice, operator):
        problem_of(send(person, f"assets/{made['id']}/approve/"), 404)
        problem_of(send(person, "assets/", ASSET), 403)
        problem_of(send(person, "costs/", COST), 403)
        problem_of(send(person, "costs/1/approve/"), 404)
        problem_of(send(person, "charging/2026-11/", {"charging": "chargeback"}), 403)
        for path in ("assets/", "costs/", "recovery/"):
            problem_of(client.get(f"/api/v1/finance/{path}"), 403)


@pytest.mark.parametrize(
    ("path", "body", "change"),
    [
        ("assets/", ASSET, {"paid": "1,5"}),
        ("assets/", ASSET, {"paid": "0"}),
        ("assets/", ASSET, {"paid": "1.12345678901234567890"}),
        ("assets/", ASSET, {"paid_currency": "XXL"}),
        ("assets/", ASSET, {"months": 0}),
        ("assets/", ASSET, {"since": "01.11.2026"}),
        ("assets/", ASSET, {"pool": "nowhere"}),
        ("costs/", COST, {"amount": "-0"}),
        ("costs/", COST, {"kind": "tea"}),
        ("costs/", COST, {"month": "2026-00"}),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(send, client, root, path, body, change):
    reply = send(root, path, {**body, **change})
    problem = problem_of(reply, reply.status_code)
    assert reply.status_code in (400, 422)
    assert next(iter(change)) in json.dumps(problem)
    assert client.get(f"/api/v1/finance/{path}").json()["items"] == []
