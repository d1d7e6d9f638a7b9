"""Secrets over REST and on the page: values go in and never come out."""

from __future__ import annotations

import json

import pytest

from scheduler.models import Job, Secret
from scheduler.wire.codec import decode
from scheduler.wire.secrets import SecretsReply
from tests import scenes
from tests.api.conftest import fields_of, problem_of
from tests.api.test_agent import call, enrolled, refusal

pytestmark = pytest.mark.django_db
VALUE = "hunter2-but-longer"
__all__ = ["enrolled"]


def test_set_list_delete(program, alice, lead, carol, project):
    mine, hers = program(alice), program(carol)
    made = mine.post("/secrets/", {"name": "hub-token", "value": VALUE})
    assert made.status_code == 201 and VALUE not in made.content.decode()
    pk = made.json()["id"]
    ours = {"name": "hub-token", "value": VALUE, "project": project.path}
    problem_of(mine.post("/secrets/", ours), 403)
    assert program(lead).post("/secrets/", ours).json()["project"] == project.path
    assert [one["project"] for one in mine.get("/secrets/").json()["items"]] == [None, project.path]
    assert VALUE not in mine.get("/secrets/").content.decode()
    assert hers.get("/secrets/").json()["items"] == []
    for caller in (hers, program(lead)):
        answer = caller.client.delete(f"/api/v1/secrets/{pk}/", **caller.headers)
        problem_of(answer, 404)
    assert mine.client.delete(f"/api/v1/secrets/{pk}/", **mine.headers).status_code == 200
    assert Secret.objects.count() == 1
    problem_of(program(alice, ["jobs:read"]).post("/secrets/", ours), 403, "scope_missing")


@pytest.mark.parametrize(
    ("change", "field"),
    [({"name": "A B"}, "name"), ({"value": "x"}, "value"), ({"project": "no/where"}, "project")],
)
def test_bad_input_is_named_and_not_repeated(program, alice, change, field):
    reply = program(alice).post("/secrets/", {"name": "hub-token", "value": VALUE, **change})
    assert fields_of(problem_of(reply, reply.status_code)) == {field}
    assert reply.status_code in (400, 422) and not Secret.objects.exists()
    assert VALUE not in reply.content.decode()


def test_a_node_gets_them_by_its_own_token(client, enrolled, program, alice, project):
    node, token = enrolled
    program(alice).post("/secrets/", {"name": "hub-token", "value": VALUE})
    attempt = scenes.start(scenes.submit(alice, project, secrets=["hub-token"]), node)
    place = f"/attempts/{attempt.pk}/secrets"
    reply = call(client, place, b"", token)
    assert reply["Cache-Control"] == "no-store"
    assert decode(SecretsReply, reply.content).secrets[0].value == VALUE
    refusal(call(client, place, b"", "nonsense"), 401, "node_token_invalid")
    refusal(call(client, "/attempts/987654/secrets", b"", token), 404, "not_found")
    refusal(call(client, place, b"x", token), 413, "too_large")


def test_the_page_takes_and_forgets(client, alice, lead, project):
    client.force_login(alice)
    bad = client.post("/settings/secrets/", {"name": "A B", "value": VALUE, "project": ""})
    assert bad.status_code == 200 and VALUE not in bad.content.decode()
    sent = {"name": "hub-token", "value": "one\r\ntwo-three", "project": ""}
    assert client.post("/settings/secrets/", sent).status_code == 302
    page = client.get("/settings/secrets/").content.decode()
    assert "hub-token" in page and "two-three" not in page
    (kept,) = Secret.objects.all()
    assert client.post(f"/settings/secrets/{kept.pk}/delete/").status_code == 302
    assert not Secret.objects.exists()
    # What is not offered is not taken either.
    forged = client.post("/settings/secrets/", {**sent, "project": project.path})
    assert forged.status_code == 200 and not Secret.objects.exists()


def test_a_secret_of_another_team_is_the_same_as_none(
    client, program, alice, carol, project, cluster, spec
):
    """B64: wherever a name or a number of one can be said, byte for byte."""
    theirs = program(carol).post("/secrets/", {"name": "theirs", "value": VALUE}).json()
    caller = program(alice)

    def told(path, body, name):
        reply = caller.post(path, body)
        found = problem_of(reply, 422)
        found.pop("request_id", None)
        return json.dumps(found).replace(name, "NAME")

    for path, wrap in (("/jobs/", lambda one: one), ("/jobs/bulk/", lambda one: {"jobs": [one]})):
        said = [told(path, wrap({**spec, "secrets": [n]}), n) for n in ("theirs", "nowhere")]
        assert said[0] == said[1] and "there is no secret 'NAME'" in said[0]
    for path in ("/secrets/{}/",):
        gone = [
            problem_of(caller.client.delete(f"/api/v1{path.format(pk)}", **caller.headers), 404)
            for pk in (theirs["id"], 987654)
        ]
        assert gone[0]["detail"] == gone[1]["detail"]
    client.force_login(alice)
    pages = [client.post(f"/settings/secrets/{pk}/delete/") for pk in (theirs["id"], 987654)]
    assert [page.status_code for page in pages] == [404, 404]
    assert "theirs" not in client.get("/settings/secrets/").content.decode()
    assert Secret.objects.filter(name="theirs").exists() and not Job.objects.exists()
