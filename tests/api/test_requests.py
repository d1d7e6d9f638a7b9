"""Requests for quota over REST: ask, look, decide once, and what strangers learn."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduler.models import Booking, Grant, MaintenanceWindow, QuotaRequest
from scheduler.services.sites.windows import plan_window
from tests import requesting, scenes
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db
FAR = "2030-01-01T00:00:00Z"
ASK = {"kind": "guaranteed", "amount": 2, "justification": "The long-context phase begins."}


def test_from_asking_to_a_grant(program, cluster, root, alice, lead, project):
    hers, leads, admins = program(alice), program(lead), program(root)
    made = hers.post("/requests/", {**ASK, "owner": project.path})
    assert made.status_code == 201, made.content
    first = made.json()
    assert (first["state"], first["route"]) == ("lead_review", ["lead", "admin"])
    here = f"/requests/{first['id']}/"
    assert [one["id"] for one in leads.get("/requests/?show=inbox").json()["items"]] == [
        first["id"]
    ]
    assert admins.get("/requests/?show=inbox").json()["items"] == []
    assert admins.get("/requests/?show=all").json()["items"][0]["owner"] == project.path
    handed = leads.post(f"{here}assign/", {"version": first["version"], "to": "lead"}).json()
    assert (handed["assigned_to"], handed["version"]) == ("lead", first["version"])
    assert leads.get("/requests/?show=assigned").json()["items"][0]["assigned_to"] == "lead"
    seen = leads.post(f"{here}whatif/").json()
    assert (seen["progress"], len(seen["digest"])) == ("empty", 64)
    said = {"version": first["version"], "outcome": "less", "amount": 1}
    second = leads.post(f"{here}decide/", said).json()
    assert (second["state"], second["decisions"][0]["outcome"]) == ("admin_review", "less")
    assert second["decisions"][0]["whatif_digest"] == seen["digest"]
    # Sent again it changes nothing; another outcome on the same version is told who was faster.
    assert leads.post(f"{here}decide/", said).json()["version"] == second["version"]
    late = {"version": first["version"], "outcome": "deny", "reason_code": "no_budget"}
    refused = problem_of(admins.post(f"{here}decide/", late), 409, "stale_version")
    assert refused["facts"]["decided_by"] == "lead"
    last = admins.post(f"{here}decide/", {"version": second["version"], "outcome": "approve"})
    assert last.json()["state"] == "partly_approved"
    assert Grant.objects.get(pk=last.json()["grant"]).guaranteed == 1
    renewed = hers.post(f"{here}renew/")
    assert (renewed.status_code, renewed.json()["state"]) == (201, "draft")


def test_gpus_are_booked_by_a_request(program, cluster, root, alice, lead, project):
    hers, leads = program(alice), program(lead)
    begin, end = "2029-12-01T08:00:00Z", "2029-12-01T18:00:00Z"
    ask = {**ASK, "kind": "reservation", "owner": project.path, "pool": cluster.pool.name}
    assert "valid_until" in fields_of(problem_of(hers.post("/requests/", ask), 400))
    ask |= {"amount": 1, "valid_from": begin, "valid_until": end}
    far = problem_of(hers.post("/requests/", ask), 422)
    assert "valid_from" in fields_of(far)
    begin, end = (timezone.now() + timedelta(hours=hours) for hours in (5, 9))
    ask |= {"valid_from": begin.isoformat(), "valid_until": end.isoformat()}
    made = hers.post("/requests/", ask).json()
    assert (made["state"], made["booking"]) == ("lead_review", None)
    plan_window(actor=root, pool=cluster.pool, from_at=begin, until_at=end, reason="disks")
    said = {"version": made["version"], "outcome": "approve"}
    clash = problem_of(leads.post(f"/requests/{made['id']}/decide/", said), 409, "booking_clash")
    assert "maintenance" in clash["detail"]
    assert hers.get(f"/requests/{made['id']}/").json() == made
    MaintenanceWindow.objects.all().delete()
    done = leads.post(f"/requests/{made['id']}/decide/", said).json()
    assert done["booking"] == Booking.objects.get().pk
    scenes.submit(lead, project, booking=str(done["booking"]), now=timezone.now())
    needed = hers.post(f"/requests/{made['id']}/revoke/", {"version": done["version"]})
    assert fields_of(problem_of(needed, 422, "reason_needed")) == {"reason"}
    word = {"version": done["version"], "reason": "new disks"}
    ended = hers.post(f"/requests/{made['id']}/revoke/", word)
    assert (ended.status_code, Booking.objects.get().closed_as) == (200, "cancelled")


def test_the_small_moves(program, cluster, alice, lead, project):
    hers, leads = program(alice), program(lead)
    draft = hers.post("/requests/", {**ASK, "owner": project.path, "is_draft": True}).json()
    here = f"/requests/{draft['id']}/"
    problem_of(leads.get(here), 404)
    sent = hers.post(f"{here}submit/", {"version": draft["version"]}).json()
    asked = {"version": sent["version"], "outcome": "ask", "comment": "How long?"}
    question = leads.post(f"{here}decide/", asked).json()
    assert question["state"] == "needs_info"
    back = hers.post(f"{here}answer/", {"version": question["version"], "text": "A week."}).json()
    assert back["state"] == "lead_review"
    assert hers.post(f"{here}comment/", {"text": "Thanks."}).status_code == 200
    times = {name: back[name] for name in ("valid_from", "valid_until")}
    text = {**times, "amount": 1, "justification": ASK["justification"]}
    newer = hers.post(f"{here}revise/", {**text, "version": back["version"]}).json()
    assert (newer["revision"], newer["amount"]) == (2, 1)
    gone = hers.post(f"{here}withdraw/", {"version": newer["version"]}).json()
    assert gone["state"] == "withdrawn"


@pytest.mark.parametrize(
    ("wrong", "status", "field"),
    [
        ({"amount": -1}, 422, "amount"),
        ({"amount": 0}, 422, "amount"),
        ({"amount": 10**9}, 422, "amount"),
        ({"amount": "1,5"}, 400, "amount"),
        ({"amount": 1.5}, 400, "amount"),
        ({"kind": "gold"}, 422, "kind"),
        ({"gpu_model": "B9000"}, 422, "gpu_model"),
        ({"pool": "nowhere"}, 400, "pool"),
        ({"valid_from": "2020-01-01T00:00:00Z"}, 422, "valid_from"),
        ({"valid_from": "soon"}, 400, "valid_from"),
        ({"valid_from": "2026-02-30"}, 400, "valid_from"),
        ({"valid_from": FAR, "valid_until": FAR}, 422, "valid_until"),
        ({"justification": ""}, 400, "justification"),
        ({"state": "approved"}, 400, "state"),
    ],
)
def test_wrong_values_are_named(program, cluster, alice, lead, project, wrong, status, field):
    reply = program(alice).post("/requests/", {**ASK, "owner": project.path, **wrong})
    assert field in fields_of(problem_of(reply, status))
    assert not QuotaRequest.objects.exists()


def test_a_begin_at_the_end_of_time_is_named(program, cluster, alice, lead, project):
    sent = {**ASK, "owner": project.path, "valid_from": "9999-12-31T00:00:00Z"}
    reply = program(alice).post("/requests/", sent)
    assert fields_of(problem_of(reply, 400)) == {"valid_from"}


def test_strangers_learn_nothing_and_a_token_needs_its_scope(
    program, cluster, alice, bob, carol, lead, operator, project
):
    asked = requesting.ask(alice, project)
    here = f"/requests/{asked.pk}/"
    said = {"version": asked.version, "outcome": "approve"}
    for stranger in (bob, carol):
        problem_of(program(stranger).get(here), 404)
        problem_of(program(stranger).post(f"{here}decide/", said), 404)
    problem_of(program(operator).post(f"{here}decide/", said), 403)
    problem_of(program(alice).post(f"{here}decide/", said), 403)
    problem_of(program(lead, ["jobs:read"]).post(f"{here}decide/", said), 403, "scope_missing")
    foreign = {**ASK, "owner": project.path}
    problem_of(program(carol).post("/requests/", foreign), 404)
    problem_of(program(lead).post("/requests/policies/", {"sla_hours": 2}), 403)


def test_administrators_set_the_routing(program, cluster, root, alice, lead, project):
    reply = program(root).post("/requests/policies/", {"money_limit": "0", "sla_hours": 5})
    assert reply.status_code == 200, reply.content
    assert reply.json()["money_limit"] == "0.000000"
    rule = {"kind": "guaranteed", "auto_up_to": 2}
    assert program(root).post("/requests/policies/", rule).json()["auto_up_to"] == 2
    problem_of(program(root).post("/requests/policies/", {"auto_up_to": 2}), 422)
    problem_of(program(root).post("/requests/policies/", {"sla_hours": 0}), 422)
    held = {one["kind"]: one for one in program(root).get("/requests/policies/").json()["items"]}
    assert (held["guaranteed"]["rule"], held["guaranteed"]["auto_up_to"]) == ("own", 2)
    assert (held["borrow"]["rule"], held["borrow"]["sla_hours"]) == ("any", 5)
    assert any("Up to 2" in words for words in held["guaranteed"]["means"])
    problem_of(program(root).post("/requests/policies/", rule), 422)
    ended = program(root).post("/requests/policies/end/", {"kind": "guaranteed"}).json()
    assert (ended["is_end"], ended["set_by"]) == (True, root.username)
    problem_of(program(root).post("/requests/policies/end/", {"kind": "guaranteed"}), 409)
