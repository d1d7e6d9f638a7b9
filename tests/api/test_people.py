"""People and open enrolment tokens over REST: found, let in no longer and again, revoked."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent, Role
from scheduler.models import NodeToken
from scheduler.services.nodes import issue_node_token
from scheduler.states import JobState
from tests import scenes
from tests.api.conftest import problem_of
from tests.factories import member

pytestmark = pytest.mark.django_db
LEFT = {"reason": "left on 30 November"}


def names(reply):
    return [one["username"] for one in reply.json()["items"]]


def test_people_are_found_by_name_team_and_standing_a_page_at_a_time(
    program, root, alice, bob, carol, lead
):
    caller = program(root)
    assert names(caller.get("/users/")) == ["alice", "bob", "carol", "lead", "root"]
    assert names(caller.get("/users/?q=speech")) == ["carol", "root"]
    first = caller.get("/users/?limit=2").json()
    assert first["next_after"] == "bob"
    assert names(caller.get("/users/?limit=2&after=bob")) == ["carol", "lead"]
    program(alice)
    one = caller.get("/users/alice/").json()
    assert (one["is_active"], one["is_administrator"], one["tokens"]) == (True, False, 1)
    assert one["teams"] == [{"team": "vision", "role": "member"}]
    caller.post("/users/bob/deactivate/", LEFT)
    assert names(caller.get("/users/?state=inactive")) == ["bob"]
    problem_of(caller.get("/users/?state=asleep"), 400)
    problem_of(caller.get("/users/?limit=0"), 400)


def test_somebody_is_let_in_no_longer_with_their_jobs_and_again(program, root, alice, project):
    scenes.build_cluster(root)
    job = scenes.submit(alice, project)
    caller, hers = program(root), program(alice)
    left = caller.post("/users/alice/deactivate/", {**LEFT, "jobs": "cancel"}).json()
    assert (left["tokens"], left["cancelled"], left["refused"]) == (1, 1, 0)
    assert left["person"]["is_active"] is False and left["person"]["jobs"] == 0
    job.refresh_from_db()
    assert job.state == JobState.CANCELLED
    assert hers.get("/me/").status_code == 401
    problem_of(caller.post("/users/alice/deactivate/", LEFT), 409)
    again = caller.post("/users/alice/reactivate/", {"reason": "back"}).json()
    assert again["is_active"] is True and again["tokens"] == 0
    told = AuditEvent.objects.filter(action__startswith="person.").order_by("pk")
    assert [(one.action, one.reason) for one in told][-1] == ("person.reactivate", "back")


def test_a_reason_is_asked_for_and_nobody_shuts_themselves_out(program, root, alice):
    caller = program(root)
    problem = problem_of(caller.post("/users/alice/deactivate/", {"reason": " "}), 400)
    assert problem["errors"][0]["field"] == "reason"
    problem_of(caller.post("/users/alice/deactivate/", {**LEFT, "jobs": "burn"}), 400)
    problem_of(caller.post("/users/root/deactivate/", LEFT), 403)
    problem_of(caller.post("/users/nobody/deactivate/", LEFT), 404)
    alice.refresh_from_db()
    assert alice.is_active


def test_others_are_not_told_that_there_are_people(program, root, lead, operator, bob):
    for person in (lead, operator):
        caller = program(person)
        for path in ("/users/", "/users/bob/", "/users/nobody/"):
            problem_of(caller.get(path), 404)
        for act in ("deactivate", "reactivate"):
            problem_of(caller.post(f"/users/bob/{act}/", LEFT), 404)
    problem_of(program(root, ["people:read"]).post("/users/bob/deactivate/", LEFT), 403)


def test_open_enrolment_tokens_are_listed_and_revoked_without_their_secret(
    program, root, operator, lead, team
):
    cluster = scenes.build_cluster(root)
    second = member("second-operator", team, Role.OPERATOR, by=root)
    _, secret = issue_node_token(actor=second, pool=cluster.pool, minutes=30)
    caller = program(operator)
    made = caller.post("/nodes/tokens/", {"pool": "default", "minutes": 5}).json()
    reply = caller.get("/nodes/tokens/")
    assert secret not in reply.content.decode() and made["token"] not in reply.content.decode()
    first, other = reply.json()["items"]
    assert (first["id"], first["created_by"], first["pool"]) == (made["id"], "operator", "default")
    assert other["created_by"] == "second-operator"
    assert len(caller.get("/nodes/tokens/?limit=1").json()["items"]) == 1
    path = f"/api/v1/nodes/tokens/{other['id']}/"
    assert caller.client.delete(path, **caller.headers).status_code == 204
    assert [one["id"] for one in caller.get("/nodes/tokens/").json()["items"]] == [made["id"]]
    problem_of(caller.client.delete("/api/v1/nodes/tokens/999999/", **caller.headers), 404)
    stranger = program(lead)
    problem_of(stranger.get("/nodes/tokens/"), 403)
    path = f"/api/v1/nodes/tokens/{made['id']}/"
    problem_of(stranger.client.delete(path, **stranger.headers), 403)
    assert (
        NodeToken.objects.get(pk=made["id"]).expires_at.isoformat()[:16] == made["expires_at"][:16]
    )
