"""Prices over REST: at once for one person, of two people where two keep the books."""

from __future__ import annotations

import json

import pytest

from accounts.services import appoint_bookkeeper
from tests.api.conftest import problem_of

BODY = {"device_model": "H100", "price_per_gpu_hour": "2.5"}


@pytest.fixture
def send(client):
    def post(user, path, body=None):
        client.force_login(user)
        return client.post(
            f"/api/v1/rates/{path}", json.dumps(body or {}), content_type="application/json"
        )

    return post


def test_one_bookkeeper_sets_a_price_at_once(send, root):
    reply = send(root, "", BODY)
    assert (reply.status_code, reply.json()["decision"]) == (201, "approved")


def test_with_two_a_price_is_proposed_and_approved(send, client, root, finance):
    appoint_bookkeeper(actor=root, user=finance)
    assert send(root, "", BODY).json()["decision"] == "proposed"
    assert client.get("/api/v1/rates/").json()["items"] == []
    (waiting,) = client.get("/api/v1/rates/proposals/").json()["items"]
    assert waiting["proposed_by"] == "root"
    path = f"{waiting['id']}/approve/"
    problem_of(send(root, path), 403)
    assert send(finance, path).json()["decision"] == "approved"
    problem_of(send(finance, path), 409)
    assert len(client.get("/api/v1/rates/").json()["items"]) == 1


def test_a_card_that_is_not_there_is_missing(send, client, root):
    for card in (0, 999):
        problem_of(send(root, "proposals/", {**BODY, "card": card}), 404)
    assert client.get("/api/v1/rates/proposals/").json()["items"] == []


def test_a_proposal_can_be_declined(send, client, root, finance):
    appoint_bookkeeper(actor=root, user=finance)
    send(root, "", BODY)
    (waiting,) = client.get("/api/v1/rates/proposals/").json()["items"]
    assert send(finance, f"{waiting['id']}/decline/").json()["decision"] == "declined"


def test_for_others_there_are_no_proposals(send, client, root, finance, alice):
    appoint_bookkeeper(actor=root, user=finance)
    send(root, "", BODY)
    client.force_login(alice)
    assert client.get("/api/v1/rates/proposals/").json()["items"] == []
    problem_of(send(alice, "1/approve/"), 404)


def test_finance_proposes_a_price_and_another_person_approves_it(
    send, client, root, finance, alice
):
    appoint_bookkeeper(actor=root, user=finance)
    reply = send(finance, "proposals/", BODY)
    assert reply.status_code == 201
    made = reply.json()
    assert (made["decision"], made["proposed_by"]) == ("proposed", finance.username)
    problem_of(send(finance, f"{made['id']}/approve/"), 403)
    assert send(root, f"{made['id']}/approve/").json()["decision"] == "approved"
    (rate,) = client.get("/api/v1/rates/").json()["items"]
    assert rate["price_per_gpu_hour"] == "2.500000"
    past = {**BODY, "restate": True, "valid_from": "2026-01-01T00:00:00Z"}
    assert "reason" in problem_of(send(finance, "proposals/", past), 422)["errors"][0]["field"]
    problem_of(send(alice, "proposals/", BODY), 403)


def test_a_teams_card_is_drafted_approved_seen_by_its_lead_alone_and_ended(
    send, client, root, finance, team, other_team, lead
):
    appoint_bookkeeper(actor=root, user=finance)
    card = send(finance, "cards/", {"name": "Own", "team": team.slug}).json()
    rate = send(finance, "proposals/", {**BODY, "card": card["id"], "priority": 1}).json()
    assert (rate["decision"], rate["card"], rate["priority"]) == ("draft", card["id"], 1)
    assert send(finance, f"cards/{card['id']}/propose/").json()["decision"] == "proposed"
    problem_of(send(finance, f"cards/{card['id']}/approve/"), 403)
    client.force_login(lead)
    assert client.get("/api/v1/rates/cards/").json()["items"] == []
    assert send(root, f"cards/{card['id']}/approve/").json()["decision"] == "approved"
    client.force_login(lead)
    (seen,) = client.get("/api/v1/rates/cards/").json()["items"]
    assert (seen["team"], seen["rates"][0]["price_per_gpu_hour"]) == (team.slug, "2.500000")
    (mine,) = client.get(f"/api/v1/rates/?team={team.slug}").json()["items"]
    assert mine["id"] == rate["id"]
    for slug in (other_team.slug, "nobodys"):
        problem_of(client.get(f"/api/v1/rates/?team={slug}"), 404)
    problem_of(send(lead, f"{rate['id']}/end/"), 404)
    problem_of(send(finance, f"{rate['id']}/end/", {"valid_until": "2020-01-01T00:00:00Z"}), 422)
    later = {"valid_until": "2126-01-01T00:00:00Z"}
    ending = send(finance, f"{rate['id']}/end/", later).json()
    assert (ending["ends_at"], ending["decision"]) == (later["valid_until"], "proposed")
    assert "Nothing then prices" in ending["outcome"]
    problem_of(send(finance, f"{rate['id']}/end/", later), 409)
    for person, waiting in ((finance, [ending]), (lead, [])):
        client.force_login(person)
        assert client.get("/api/v1/rates/endings/").json()["items"] == waiting
    problem_of(send(finance, f"endings/{ending['id']}/approve/"), 403)
    problem_of(send(lead, f"endings/{ending['id']}/approve/"), 404)
    agreed = send(root, f"endings/{ending['id']}/approve/").json()
    assert (agreed["decision"], agreed["decided_by"]) == ("approved", "root")
    late = problem_of(send(finance, f"endings/{ending['id']}/decline/"), 409)
    assert "was faster" in late["detail"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"valid_until": "2020-01-01T00:00:00Z"}, "valid_until"),
        (
            {"valid_from": "2126-01-01T00:00:00Z", "valid_until": "2126-01-01T00:00:00Z"},
            "valid_until",
        ),
        ({"priority": 101}, "priority"),
        ({"priority": "first"}, "priority"),
        ({"currency": "XYZ"}, "currency"),
    ],
)
def test_bad_ends_and_priorities_name_their_field(send, root, finance, wrong, field):
    appoint_bookkeeper(actor=root, user=finance)
    status = 400 if field == "priority" else 422
    found = problem_of(send(finance, "proposals/", {**BODY, **wrong}), status)
    assert found["errors"][0]["field"] == field
