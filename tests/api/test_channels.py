"""Chats and hours over REST: for whose they are, an address that is never told again."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from scheduler.models import Webhook
from tests.api.conftest import fields_of, problem_of
from tests.factories import told

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_a_chat_is_made_tried_changed_and_removed(program, alice, carol, receiver):
    caller, other = program(alice), program(carol)
    made = caller.post("/channels/", {"dialect": "slack", "url": receiver.url, "name": "mine"})
    assert made.status_code == 201
    pk = made.json()["id"]
    (listed,) = caller.get("/channels/").json()["items"]
    assert listed == made.json() and (listed["team"], listed["sent"]) == (None, 0)
    assert "room=1" not in json.dumps(listed)
    tried = caller.post(f"/channels/{pk}/test/").json()
    assert tried["is_there"] and tried["status"] == 204
    problem_of(caller.post(f"/channels/{pk}/test/"), 409)
    now = timezone.now()
    told(Webhook.objects.get(), "k", now, tries=8, status=404, given_up_at=now)
    (row,) = caller.get(f"/channels/{pk}/messages/").json()["items"]
    assert (row["kind"], row["status"], row["tries"]) == ("budget", 404, 8)
    changed = caller.post(f"/channels/{pk}/", {"kinds": ["budget"], "is_paused": True}).json()
    assert changed["kinds"] == ["budget"] and changed["paused_at"] and changed["lost"] == 1
    for nothing in (
        other.post(f"/channels/{pk}/", {"is_paused": True}),
        other.post(f"/channels/{pk}/test/"),
        other.get(f"/channels/{pk}/messages/"),
        other.client.delete(f"/api/v1/channels/{pk}/", **other.headers),
    ):
        problem_of(nothing, 404)
    assert other.get("/channels/").json()["items"] == []
    gone = caller.client.delete(f"/api/v1/channels/{pk}/", **caller.headers)
    assert gone.status_code == 204 and not Webhook.objects.exists()


def test_what_is_wrong_is_named(program, alice, lead, team):
    caller, url = program(alice), "https://hooks.slack.com/services/hunter2"
    for body, field in (
        ({"dialect": "irc", "url": url}, "dialect"),
        ({"dialect": "slack", "url": "https://evil.example/hunter2"}, "url"),
        ({"dialect": "slack", "url": url, "team": "ghosts"}, "team"),
        ({"dialect": "slack", "url": url, "kinds": ["gossip"]}, "kinds"),
    ):
        bad = caller.post("/channels/", body)
        assert fields_of(problem_of(bad, bad.status_code)) == {field}
        assert b"hunter2" not in bad.content
    problem_of(caller.post("/channels/", {"dialect": "slack", "url": url, "team": "vision"}), 403)
    ours = program(lead).post("/channels/", {"dialect": "slack", "url": url, "team": "vision"})
    assert ours.json()["team"] == team.slug


def test_hours_are_read_and_chosen(program, alice):
    caller, path = program(alice), "/notifications/hours/"
    assert caller.get(path).json()["mail"] == "at_once"
    sent = {"mail": "weekly", "quiet_from": "22:00", "quiet_until": "07:00", "urgent": ["budget"]}
    found = caller.post(path, sent).json()
    assert found == sent | {"digest_at": "08:00", "zone": "UTC"}
    assert caller.post(path, {"zone": "Asia/Tokyo"}).json()["quiet_from"] == "22:00"
    for body, field in (
        ({"quiet_from": "22:00"}, "quiet_until"),
        ({"quiet_from": "7", "quiet_until": "08:00"}, "quiet_from"),
        ({"zone": "Nowhere"}, "zone"),
        ({"mail": "yearly"}, "mail"),
        ({"urgent": ["gossip"]}, "urgent"),
    ):
        bad = caller.post(path, body)
        assert fields_of(problem_of(bad, bad.status_code)) == {field}
    never = caller.post(path, {"quiet_from": None, "quiet_until": None}).json()
    assert never["quiet_from"] is None and never["zone"] == "Asia/Tokyo"
