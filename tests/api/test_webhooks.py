"""Webhooks over REST: a secret once, changes in the audit, nothing for others."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from accounts.models import AuditEvent
from scheduler.models import Webhook
from tests.api.conftest import fields_of, problem_of
from tests.factories import told

pytestmark = [pytest.mark.django_db, pytest.mark.once]
URL = "https://chat.example.org/services/T0/B1"


def removed(caller, pk):
    return caller.client.delete(f"/api/v1/webhooks/{pk}/", **caller.headers)


def test_a_webhook_is_made_changed_told_and_removed(program, root):
    caller = program(root)
    made = caller.post("/webhooks/", {"url": URL, "kinds": ["budget"]})
    assert made.status_code == 201
    pk, secret = made.json()["id"], made.json()["secret"]
    (listed,) = caller.get("/webhooks/").json()["items"]
    assert (listed["host"], listed["kinds"], listed["sent"]) == ("chat.example.org", ["budget"], 0)
    assert secret not in json.dumps(listed) and "services" not in json.dumps(listed)
    now = timezone.now()
    lost = told(Webhook.objects.get(), "k", now, tries=8, status=503, given_up_at=now)
    (row,) = caller.get(f"/webhooks/deliveries/?webhook={pk}").json()["items"]
    assert (row["id"], row["status"], row["host"]) == (lost.pk, 503, "chat.example.org")
    again = caller.post(f"/webhooks/deliveries/{lost.pk}/again/").json()
    assert (again["tries"], again["given_up_at"]) == (0, None)
    changed = caller.post(f"/webhooks/{pk}/", {"kinds": [], "is_paused": True}).json()
    assert changed["kinds"] == [] and changed["paused_at"] and changed["waiting"] == 1
    assert caller.post(f"/webhooks/{pk}/", {"is_paused": False}).json()["paused_at"] is None
    assert removed(caller, pk).status_code == 204
    assert caller.get("/webhooks/").json()["items"] == []
    done = AuditEvent.objects.filter(action__contains="policy.").order_by("id")
    assert list(done.values_list("action", flat=True)) == [
        "policy.add_webhook",
        "policy.send_again",
        "policy.change_webhook",
        "policy.pause_webhook",
        "policy.resume_webhook",
        "policy.remove_webhook",
    ]
    assert not [one for one in done if secret in json.dumps([one.before, one.after])]


def test_what_is_wrong_is_named_and_others_find_nothing(program, root, operator):
    caller, other = program(root), program(operator)
    for body, field in (
        ({"url": "chat"}, "url"),
        ({"url": "https://a:b@chat.example.org"}, "url"),
        ({"url": URL, "kinds": ["gossip"]}, "kinds"),
    ):
        bad = caller.post("/webhooks/", body)
        assert fields_of(problem_of(bad, bad.status_code)) == {field}
    assert not Webhook.objects.exists()
    pk = caller.post("/webhooks/", {"url": URL}).json()["id"]
    problem_of(caller.post("/webhooks/", {"url": URL}), 409)
    unknown = caller.post(f"/webhooks/{pk}/", {"kinds": ["gossip"]})
    assert fields_of(problem_of(unknown, unknown.status_code)) == {"kinds"}
    problem_of(caller.get("/webhooks/deliveries/?webhook=x"), 400)
    for nothing in (
        other.get("/webhooks/"),
        other.post("/webhooks/", {"url": "chat"}),
        other.post(f"/webhooks/{pk}/", {"is_paused": True}),
        removed(other, pk),
        other.get("/webhooks/deliveries/"),
    ):
        problem_of(nothing, 404)
