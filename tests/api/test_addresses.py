"""One's own mail address, and somebody else's, over REST."""

from __future__ import annotations

import pytest

from accounts.adapter import BEGAN
from tests.api.conftest import problem_of

pytestmark = [pytest.mark.django_db, pytest.mark.once]

NEW = "alice@new.example"


def test_shown_asked_for_and_cancelled(alice, root, client, program):
    hers = program(alice)
    assert hers.get("/me/address/").json() == {
        "email": "alice@example.org",
        "decided_by": "",
        "waiting": None,
    }
    refused = problem_of(hers.post("/me/address/", {"email": NEW}), 403)
    assert refused["code"] == "sign_in_needed"
    problem_of(hers.post("/me/address/again/", {}), 409)
    client.force_login(alice)
    send = {"content_type": "application/json"}
    wrong = problem_of(client.post("/api/v1/me/address/", {"email": "x"}, **send), 422)
    assert wrong["errors"][0]["field"] == "email"
    made = client.post("/api/v1/me/address/", {"email": NEW}, **send).json()
    assert made["waiting"]["email"] == NEW and made["waiting"]["by_administrator"] is False
    shown = program(root).get("/users/alice/").json()
    assert (shown["email"], shown["address_asked"]) == ("alice@example.org", NEW)
    assert hers.post("/me/address/again/", {}).json()["waiting"]["email"] == NEW
    assert client.delete("/api/v1/me/address/", **send).json()["waiting"] is None
    client.force_login(root)
    sent = {"email": NEW, "how": "now", "reason": "moved"}
    changed = client.post("/api/v1/users/alice/address/", sent, **send).json()
    assert changed["email"] == NEW
    problem_of(client.delete("/api/v1/users/alice/address/", **send), 409)


def test_the_password_is_asked_again(client, alice):
    client.force_login(alice)
    session = client.session
    session[BEGAN] -= 901
    session.save()
    sent = {"content_type": "application/json"}
    refused = problem_of(client.post("/api/v1/me/address/", {"email": NEW}, **sent), 403)
    assert refused["code"] == "password_needed"
