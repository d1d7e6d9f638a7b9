"""Tokens that are bound to a project or to addresses: nothing beyond either."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import ApiToken, AuditEvent
from accounts.permissions import acting_for, can, projects_visible_to, team_ids_for
from accounts.services import authenticate_token, create_project, issue_token
from accounts.services.tokens import PROJECT_SCOPES
from portal.api.bounds import WITHIN_A_PROJECT
from portal.api.v1.urls import urlpatterns
from portal.live.session import user_of_session
from scheduler.models import MeantSecrets
from scheduler.selectors.secrets.visible import visible_secrets
from scheduler.services.secrets.keeping import set_secret
from tests import scenes
from tests.api.conftest import Caller, fields_of, problem_of
from tests.rights import asking
from tests.rights.scene import build

pytestmark = pytest.mark.django_db


def bound(user, project=None, networks=(), scopes=PROJECT_SCOPES):
    _, secret = issue_token(
        actor=user, name="ci", scopes=scopes, project=project, networks=networks
    )
    return Caller(secret)


@pytest.fixture
def beside(lead, team):
    return create_project(actor=lead, team=team, name="Beside")


def fresh(user):
    return type(user).objects.get(pk=user.pk)


class TestOneProject:
    def test_it_sees_and_submits_there(self, alice, cluster, project, spec):
        caller = bound(alice, project)
        made = caller.post("/jobs/", spec)
        assert made.status_code == 201
        number = made.json()["id"]
        assert caller.get(f"/jobs/{number}/").status_code == 200
        assert [job["id"] for job in caller.get("/jobs/").json()["items"]] == [number]
        assert caller.post(f"/jobs/{number}/cancel/").status_code == 200
        assert [one["path"] for one in caller.get("/projects/").json()["items"]] == [project.path]

    def test_beyond_it_there_is_nothing(self, alice, cluster, project, beside, spec):
        alice = fresh(alice)
        other = scenes.submit(alice, beside, name="elsewhere")
        caller = bound(alice, project)
        for path in (f"/jobs/{other.pk}/", f"/jobs/{other.pk}/why/", f"/jobs/{other.pk}/log/"):
            problem_of(caller.get(path), 404)
        problem_of(caller.post(f"/jobs/{other.pk}/cancel/"), 404)
        problem_of(caller.post(f"/jobs/{other.pk}/clone/"), 404)
        assert caller.get("/jobs/").json()["items"] == []
        problem_of(caller.get(f"/jobs/?project={beside.path}"), 404)
        refused = problem_of(caller.post("/jobs/", {**spec, "project": beside.path}), 422)
        missing = problem_of(caller.post("/jobs/", {**spec, "project": "vision/never"}), 422)
        assert fields_of(refused) == fields_of(missing) == {"project"}
        said = json.dumps(refused["errors"]).replace(beside.path, "P")
        assert said == json.dumps(missing["errors"]).replace("vision/never", "P")
        waits = {**spec, "depends_on": [{"job": other.pk, "kind": "afterok"}]}
        assert fields_of(problem_of(caller.post("/jobs/", waits), 422)) == {"depends_on"}

    def test_what_is_not_of_a_project_is_closed(self, root, cluster, project):
        caller = bound(root, project)
        for path in ("/nodes/", "/queue/default/", "/costs/", "/rules/quotas/", "/requests/"):
            found = problem_of(caller.get(path), 403, "token_bound")
            assert project.path in found["detail"]
        problem_of(caller.post("/secrets/", {"name": "a", "value": "b"}), 403, "token_bound")
        me = caller.get("/me/").json()
        assert (me["is_administrator"], me["is_operator"], me["teams"]) == (False, False, [])
        assert (me["token_project"], me["token_networks"]) == (project.path, [])

    def test_an_idempotency_key_of_elsewhere_brings_no_job(
        self, alice, cluster, project, beside, spec, program
    ):
        alice = fresh(alice)
        key, there = {"HTTP_IDEMPOTENCY_KEY": "k1"}, {**spec, "project": beside.path}
        program(alice).post("/jobs/", there, **key)
        problem_of(bound(alice, project).post("/jobs/", there, **key), 422)
        again = program(alice).post("/jobs/", there, **key)
        assert again.status_code == 200

    def test_a_persons_own_secrets_stay_theirs(self, alice, lead, cluster, project, spec):
        lead = fresh(lead)
        set_secret(actor=alice, name="mine", value="hunter2hunter2")
        set_secret(actor=alice, name="both", value="hunter2hunter2")
        set_secret(actor=lead, name="both", value="hunter3hunter3", project=project)
        set_secret(actor=lead, name="ours", value="hunter3hunter3", project=project)
        caller = bound(alice, project)
        found = problem_of(caller.post("/jobs/", {**spec, "secrets": ["mine"]}), 422)
        assert fields_of(found) == {"secrets"}
        # Of that name it gets the project's, whatever the person keeps.
        for name in ("both", "ours"):
            sent = caller.post("/jobs/", {**spec, "secrets": [name]})
            assert MeantSecrets.objects.get(job=sent.json()["id"]).own == []
        assert visible_secrets(fresh(alice)).count() == 4

    def test_rights_of_its_user_are_those_of_the_project(self, root, alice, project, beside, team):
        _, secret = issue_token(actor=root, name="x", scopes=["jobs:read"], project=project)
        found = authenticate_token(secret)
        assert found is not None
        user = found.user
        assert can(user, "submit_job", project)
        assert not can(user, "view_project", beside)
        assert not can(user, "view_team", team)
        assert not any(can(user, action, None) for action in ("operate", "administer", "see_jobs"))
        assert list(projects_visible_to(user)) == [project]
        assert (team_ids_for(user), acting_for(user, "manage_team", team)) == (frozenset(), ())
        assert fresh(root).is_superuser

    def test_it_gives_no_right_that_its_user_lost(self, alice, team, project):
        caller = bound(alice, project, scopes=["jobs:read"])
        assert len(caller.get("/projects/").json()["items"]) == 1
        team.memberships.filter(user=alice).delete()
        alice.groups.clear()
        assert caller.get("/projects/").json()["items"] == []

    def test_it_goes_with_its_project(self, alice, project, cluster):
        caller = bound(alice, project)
        project.delete()
        problem_of(caller.get("/me/"), 401)
        assert not ApiToken.objects.exists()


@pytest.mark.once
@pytest.mark.timeout(300)
def test_nothing_of_anybody_else_is_in_any_answer():
    """An administrator's token, bound to one project, asks every operation, on own and foreign."""
    scene = build()
    admin, own, foreign = scene.people["admin"], scene.own, scene.foreign
    caller = bound(admin, own.project)
    names = re.compile(rf"{foreign.team.slug}|{foreign.team.name}\b|of-foreign", re.IGNORECASE)
    answered = set()
    for route, methods in asking.operations().items():
        if "get" not in methods or route == "schema/":
            continue
        for side in (own, foreign):
            url = asking.api_address(route, side)
            reply = caller.client.get(url, **caller.headers)
            assert reply.status_code in (200, 403, 404, 409), (route, reply.status_code)
            body = b"".join(reply) if reply.streaming else reply.content
            assert not names.search(body.decode("utf-8", "replace")), route
            if reply.status_code == 200:
                answered.add(route)
                assert side is own or not re.search(r"<(int|str|slug):", route), route
    assert {"jobs/", "jobs/<int:pk>/", "sets/", "sessions/", "projects/", "me/"} <= answered


def test_what_is_open_to_them_is_there():
    views = [getattr(pattern.callback, "cls", None) for pattern in urlpatterns]
    methods = [getattr(view, verb, None) for view in views for verb in ("get", "post", "put")]
    known = {getattr(method, "operation_id", "") for method in methods}
    assert known - {""} > WITHIN_A_PROJECT - {"schema_read"}


class TestAddresses:
    def test_from_there_it_is_good_and_from_elsewhere_no_token_at_all(self, alice):
        caller = bound(alice, networks=["192.0.2.0/24", "2001:db8::/48"])
        for address in ("192.0.2.9", "::ffff:192.0.2.9", "2001:db8::1"):
            assert caller.get("/me/", REMOTE_ADDR=address).status_code == 200
        foreign = problem_of(caller.get("/me/", REMOTE_ADDR="198.51.100.1"), 401)
        never = problem_of(Caller("ty_00000000_x").get("/me/", REMOTE_ADDR="198.51.100.2"), 401)
        assert {**foreign, "request_id": ""} == {**never, "request_id": ""}
        assert ApiToken.objects.get().last_used_at is not None

    def test_what_a_caller_says_of_itself_is_not_believed(self, alice):
        caller = bound(alice, networks=["192.0.2.9"])
        said = {"HTTP_X_FORWARDED_FOR": "192.0.2.9", "HTTP_X_REAL_IP": "192.0.2.9"}
        problem_of(caller.get("/me/", REMOTE_ADDR="198.51.100.1", **said), 401)
        problem_of(caller.get("/me/", REMOTE_ADDR="", **said), 401)

    def test_the_audit_says_why_once_a_minute(self, alice):
        token, secret = issue_token(
            actor=alice, name="ci", scopes=["jobs:read"], networks=["192.0.2.9"]
        )
        caller = Caller(secret)
        for _ in range(3):
            problem_of(caller.get("/me/", REMOTE_ADDR="198.51.100.1"), 401)
        event = AuditEvent.objects.get(action="token.refuse")
        assert (event.ip, event.actor_id, event.area) == ("198.51.100.1", alice.pk, "people")
        assert "192.0.2.9" in event.after
        assert "address" in event.reason
        token.refresh_from_db()
        assert token.last_used_at is None
        later = timezone.now() + timedelta(seconds=61)
        assert authenticate_token(secret, address="198.51.100.1", now=later) is None
        assert AuditEvent.objects.filter(action="token.refuse").count() == 2

    def test_both_bounds_hold_together(self, alice, project):
        caller = bound(alice, project, networks=["192.0.2.9"])
        me = caller.get("/me/", REMOTE_ADDR="192.0.2.9").json()
        assert (me["token_project"], me["token_networks"]) == (project.path, ["192.0.2.9"])


class TestMaking:
    BODY = {"name": "ci", "scopes": ["jobs:read"], "expires_in_days": 7}

    def made(self, client, **more):
        body = {**self.BODY, **more}
        return client.post("/api/v1/tokens/", body, content_type="application/json")

    def test_over_rest(self, client, alice, project):
        client.force_login(alice)
        made = self.made(client, project=project.path, networks=["10.1.0.0/16", "2001:db8::1"])
        assert made.status_code == 201
        shown = client.get("/api/v1/tokens/").json()["items"][0]
        assert shown["project"] == project.path
        assert shown["networks"] == ["10.1.0.0/16", "2001:db8::1"]
        event = AuditEvent.objects.get(action="token.issue")
        assert project.path in event.after
        assert "10.1.0.0/16" in event.after

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            ({"project": "vision/never"}, "project"),
            ({"project": "nonsense"}, "project"),
            ({"networks": ["10.1.2.3/8"]}, "networks"),
            ({"networks": ["0.0.0.0/0"]}, "networks"),
            ({"networks": ["x" * 65]}, "networks"),
            ({"networks": [f"192.0.2.{n}" for n in range(11)]}, "networks"),
            ({"networks": "192.0.2.1"}, "networks"),
        ],
    )
    def test_bad_bounds_name_their_field(self, client, alice, project, wrong, field):
        client.force_login(alice)
        reply = self.made(client, **wrong)
        assert reply.status_code in (400, 422)
        named = fields_of(problem_of(reply, reply.status_code))
        assert {one.partition("[")[0] for one in named} == {field}
        assert not ApiToken.objects.exists()

    def test_scopes_beyond_a_project_and_foreign_projects_are_refused(
        self, client, alice, project, other_project
    ):
        client.force_login(alice)
        wide = self.made(client, project=project.path, scopes=["jobs:read", "people:read"])
        found = problem_of(wide, wide.status_code)
        assert fields_of(found) == {"scopes"}
        assert "people:read" in found["detail"]
        answers = []
        for path in (other_project.path, "vision/never"):
            answer = self.made(client, project=path).json()
            answers.append(json.dumps({**answer, "request_id": ""}).replace(path, "P"))
        assert answers[0] == answers[1]


def test_a_live_socket_takes_no_token(alice, project):
    """It comes in with a browser's session alone, so that there is no bound to look at."""
    _, secret = issue_token(actor=alice, name="x", scopes=["jobs:read"], project=project)
    assert user_of_session(secret) is None
