"""Terms of pools over REST: proposed by one, approved by another; bad input is named."""

from __future__ import annotations

import json

import pytest

from accounts.services import appoint_bookkeeper
from tests.api.conftest import problem_of


@pytest.fixture
def send(client, cluster, root, finance):
    appoint_bookkeeper(actor=root, user=finance)

    def post(user, path, body=None):
        client.force_login(user)
        return client.post(
            f"/api/v1/finance/terms/{path}",
            json.dumps(body or {}),
            content_type="application/json",
        )

    return post


def test_two_people_change_who_pays_for_idle_time(send, client, root, finance):
    made = send(finance, "", {"pool": "default", "idle": "hybrid", "guarantee_percent": 30})
    assert made.status_code == 201
    row = made.json()
    assert (row["decision"], row["proposed_by"], row["decided_by"]) == ("proposed", "finance", None)
    problem_of(send(finance, f"{row['id']}/approve/"), 403)
    assert send(root, f"{row['id']}/approve/").json()["decision"] == "approved"
    problem_of(send(root, f"{row['id']}/approve/"), 409)
    (listed,) = client.get("/api/v1/finance/terms/").json()["items"]
    assert (listed["idle"], listed["guarantee_percent"]) == ("hybrid", 30)


def test_others_see_and_change_nothing(send, client, root, finance, alice, operator):
    row = send(finance, "", {"pool": "default", "idle": "even"}).json()
    for person in (alice, operator):
        problem_of(send(person, f"{row['id']}/approve/"), 404)
        problem_of(send(person, "", {"pool": "default", "idle": "none"}), 403)
        problem_of(client.get("/api/v1/finance/terms/"), 403)
    problem_of(send(root, "987654/decline/"), 404)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"pool": "nowhere"}, 400),
        ({"idle": "mine"}, 422),
        ({"guarantee_percent": 101}, 422),
        ({"guarantee_percent": "a"}, 400),
        ({"from_month": "2026-13"}, 422),
        ({"price": 1}, 400),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(send, client, root, change, status):
    reply = send(root, "", {"pool": "default", **change})
    problem = problem_of(reply, reply.status_code)
    assert reply.status_code in (status, 400, 422)
    assert next(iter(change)) in json.dumps(problem)
    assert client.get("/api/v1/finance/terms/").json()["items"] == []
