"""Who gets in, with which scope; and what a stranger learns: nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from accounts.services import SCOPES, issue_token, revoke_token
from portal.api.v1.urls import urlpatterns
from tests import scenes
from tests.api.conftest import Caller, fields_of, problem_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer ty_00000000_x", "Bearer \u00e9", "x"]
)
def test_without_a_good_token_it_is_a_401(client, header):
    reply = client.get("/api/v1/jobs/", **({"HTTP_AUTHORIZATION": header} if header else {}))
    problem_of(reply, 401)
    assert reply["WWW-Authenticate"].startswith("Bearer")


def test_expired_and_revoked_tokens_and_left_people_are_out(program, alice):
    long_ago = timezone.now() - timedelta(days=2)
    _, old = issue_token(actor=alice, name="old", scopes=SCOPES, expires_in_days=1, now=long_ago)
    problem_of(Caller(old).get("/me/"), 401)
    token, secret = issue_token(actor=alice, name="t", scopes=SCOPES, expires_in_days=1)
    caller = Caller(secret)
    assert caller.get("/me/").status_code == 200
    revoke_token(actor=alice, token=token)
    problem_of(caller.get("/me/"), 401)
    working = program(alice)
    type(alice).objects.filter(pk=alice.pk).update(is_active=False)
    problem_of(working.get("/me/"), 401)


def test_a_token_does_what_its_scopes_say(program, alice, cluster, spec):
    reader = program(alice, ["jobs:read"])
    found = problem_of(reader.post("/jobs/", spec), 403, "scope_missing")
    assert "jobs:write" in found["detail"]
    pk = program(alice).post("/jobs/", spec).json()["id"]
    assert reader.get(f"/jobs/{pk}/").status_code == 200
    problem_of(reader.get(f"/jobs/{pk}/log/"), 403, "scope_missing")
    problem_of(reader.get(f"/jobs/{pk}/cost/"), 403, "scope_missing")
    me = reader.get("/me/").json()
    assert (me["username"], me["scopes"], me["is_operator"]) == ("alice", ["jobs:read"], False)
    assert me["teams"] == [{"slug": "vision", "name": "Vision", "role": "member"}]


def test_a_token_never_exceeds_its_user(program, alice, finance, cluster, project):
    job = scenes.submit(alice, project)
    problem_of(program(alice).post("/nodes/n1/drain/"), 403, "forbidden")
    problem_of(program(alice).post("/nodes/tokens/", {"pool": "default"}), 403, "forbidden")
    accountant = program(finance)
    assert accountant.get(f"/jobs/{job.pk}/").json()["spec"] is None
    problem_of(accountant.get(f"/jobs/{job.pk}/log/"), 403, "forbidden")
    problem_of(accountant.get(f"/jobs/{job.pk}/log/raw/"), 403, "forbidden")
    problem_of(accountant.post(f"/jobs/{job.pk}/cancel/"), 403, "forbidden")
    problem_of(accountant.post(f"/jobs/{job.pk}/clone/"), 404)
    assert accountant.get(f"/jobs/{job.pk}/cost/").status_code == 200


def test_a_session_needs_csrf_and_our_own_origin(alice, cluster, spec):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(alice)
    assert strict.get("/api/v1/jobs/").status_code == 200
    for method in ("post", "delete"):
        reply = getattr(strict, method)("/api/v1/tokens/", {}, content_type="application/json")
        problem_of(reply, 403)
    foreign = strict.delete("/api/v1/tokens/1/", HTTP_ORIGIN="https://evil.example")
    problem_of(foreign, 403)


def test_tokens_are_made_by_people_not_by_tokens(client, program, alice):
    problem_of(program(alice).get("/tokens/"), 403, "sign_in_needed")
    client.force_login(alice)
    body = {"name": "ci", "scopes": ["jobs:read"], "expires_in_days": 7}
    made = client.post("/api/v1/tokens/", body, content_type="application/json")
    assert made.status_code == 201
    assert Caller(made.json()["secret"]).get("/me/").status_code == 200
    listed = client.get("/api/v1/tokens/").json()["items"]
    assert listed[0]["name"] == "ci"
    assert "secret" not in listed[0]
    assert client.delete(f"/api/v1/tokens/{made.json()['id']}/").json()["revoked_at"]
    problem_of(Caller(made.json()["secret"]).get("/me/"), 401)
    for change in ({"scopes": []}, {"scopes": ["root"]}, {"expires_in_days": 366}, {"name": ""}):
        bad = client.post("/api/v1/tokens/", {**body, **change}, content_type="application/json")
        assert bad.status_code in (400, 422)
        assert fields_of(problem_of(bad, bad.status_code)) <= {*change, "scopes[0]"}


def test_what_alice_sees_a_stranger_cannot_tell_from_nothing(
    program, alice, carol, cluster, project, other_project
):
    """Every address of a job answers carol exactly as it answers for a job that never was."""
    job = scenes.submit(alice, project)
    attempt = scenes.start(job, cluster.node(1))
    scenes.sync(cluster.node(1), scenes.running(attempt), now=scenes.at(1))
    mine, hers = program(alice), program(carol)
    addresses = [str(p.pattern) for p in urlpatterns if str(p.pattern).startswith("jobs/<int:pk>")]
    assert len(addresses) > 10
    for address in addresses:
        address = address.replace("<int:other>", "1")
        here = "/" + address.replace("<int:pk>", str(job.pk))
        nowhere = "/" + address.replace("<int:pk>", "987654")
        verb = "post" if mine.get(here).status_code == 405 else "get"
        foreign, missing = getattr(hers, verb)(here), getattr(hers, verb)(nowhere)
        problem_of(foreign, 404)
        same = [{**r.json(), "request_id": ""} for r in (foreign, missing)]
        assert same[0] == same[1], address
    assert hers.get("/jobs/").json()["items"] == []
    paths = [one["path"] for one in hers.get("/projects/").json()["items"]]
    assert paths == [other_project.path]
    holder = hers.get("/nodes/n1/").json()["devices"][0]
    assert (holder["is_held"], holder["job"]) == (True, None)
    job.refresh_from_db()
    assert job.state == "running", "nothing a stranger sent has moved it"


def test_the_queue_hides_whose_jobs_wait(program, alice, carol, cluster, project):
    scenes.submit(alice, project, name="secret plan")
    assert program(alice).get("/queue/default/").json()["items"][0]["name"] == "secret plan"
    place = program(carol).get("/queue/default/").json()["items"][0]
    assert (place["position"], place["name"], place["owner"], place["job"]) == (1, None, None, None)
    problem_of(program(carol).get("/queue/nowhere/"), 404)


def test_operators_drain_resume_and_enrol(program, operator, cluster):
    caller = program(operator)
    assert caller.post("/nodes/n1/drain/", {"reason": "fan"}).json()["state"] in (
        "draining",
        "drained",
    )
    assert caller.post("/nodes/n1/resume/").json()["state"] == "ready"
    out = caller.post("/nodes/n1/quarantine/", {"reason": "rattles"}).json()
    assert (out["state"], out["state_reason"]) == ("quarantined", "rattles")
    assert fields_of(problem_of(caller.post("/nodes/n1/quarantine/", {}), 400)) == {"reason"}
    assert caller.post("/nodes/n1/resume/").json()["state"] == "ready"
    made = caller.post("/nodes/tokens/", {"pool": "default", "minutes": 5})
    assert made.status_code == 201
    assert made.json()["token"] in made.json()["command"]
    bad = caller.post("/nodes/tokens/", {"pool": "nowhere"})
    assert fields_of(problem_of(bad, 400)) == {"pool"}
    assert caller.post("/queue/default/pause/").json()["is_paused"] is True
    assert caller.post("/queue/default/resume/").json()["is_paused"] is False
    pool = caller.post("/pools/", {"name": "h100"})
    assert (pool.status_code, pool.json()["total"]) == (201, 0)
    problem_of(caller.get("/nodes/nope/"), 404)


def test_every_route_is_behind_the_door(client):
    """Anonymous callers get 401 (or 405) everywhere but at the schema."""
    for pattern in get_resolver("portal.api.v1.urls").url_patterns:
        route = str(pattern.pattern)
        for name in (
            "<int:pk>",
            "<int:other>",
            "<int:index>",
            "<int:number>",
            "<str:name>",
            "<slug:pool>",
            "<slug:slug>",
            "<slug:team>",
            "<slug:project>",
            "<str:username>",
        ):
            route = route.replace(name, "1")
        reply = client.get(f"/api/v1/{route}")
        expected = {200} if route == "schema/" else {401, 405}
        assert reply.status_code in expected, route
