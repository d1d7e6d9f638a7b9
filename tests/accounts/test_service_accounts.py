"""Accounts of programs: made by leads, in by token alone, to read and to submit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import AuditEvent, User
from accounts.permissions import acting_for, can, projects_visible_to
from accounts.policy import SERVICE_ACCOUNT, TABLE, actions_of
from accounts.services import (
    add_member,
    authenticate_token,
    create_project,
    create_user,
    delegate,
    end_service_account,
    give_role,
    issue_service_token,
    make_service_account,
    revoke_service_token,
)
from scheduler.models import Job
from tests import scenes
from tests.api.conftest import Caller, problem_of
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture
def service(lead, team, project):
    return make_service_account(actor=lead, team=team, name="ci")


def token(lead, service, *scopes, **more):
    wanted = scopes or ("jobs:read", "jobs:write")
    return issue_service_token(actor=lead, account=service, name="t", scopes=wanted, **more)


def test_it_works_for_its_own_team_alone(root, lead, service, team, project, other_project):
    assert (service.username, service.email, service.is_service) == ("svc-ci", "", True)
    fresh = User.objects.get(pk=service.pk)
    assert {a for a in TABLE["team"] if can(fresh, a, team)} == set(
        actions_of("team", SERVICE_ACCOUNT)
    )
    later = create_project(actor=root, team=team, name="Later")
    fresh = User.objects.get(pk=service.pk)
    assert set(projects_visible_to(fresh, "submit_job")) == {project, later}
    assert not any(can(fresh, action, other_project) for action in TABLE["project"])
    assert not any(can(fresh, action, None) for action in TABLE["cluster"])


def test_its_tokens_are_bound_within_the_team(client, lead, service, team, project, other_project):
    client.force_login(lead)
    sent = {"name": "t", "scopes": ["jobs:read"], "expires_in_days": "7"}
    address = f"/teams/{team.slug}/services/{service.pk}/token/"
    page = client.post(address, {**sent, "project": other_project.path})
    assert page.context["token_form"].errors["project"]
    page = client.post(address, {**sent, "project": project.path, "networks": "192.0.2.7"})
    made = service.api_tokens.get()
    assert (made.project, made.networks) == (project, ["192.0.2.7"])
    with pytest.raises(Invalid) as refused:
        token(lead, service, "nodes:read", project=project)
    assert refused.value.field == "scopes"


def test_what_it_submits_is_the_teams(root, lead, service, project):
    scenes.build_cluster(root, nodes=1, gpus=2)
    _, secret = token(lead, service)
    sent = {"name": "nightly", "project": project.path, "command": ["python", "train.py"]}
    reply = Caller(secret).post("/jobs/", sent)
    job = Job.objects.get(pk=reply.json()["id"])
    assert (job.owner, job.project) == (service, project)
    assert reply.json()["owner"] == "svc-ci"


def test_tokens_have_scopes_and_an_end(lead, alice, service):
    for bad in ((), ("nodes:write",), ("people:write",), ("costs:read",)):
        with pytest.raises(Invalid) as refused:
            issue_service_token(actor=lead, account=service, name="t", scopes=bad)
        assert refused.value.field == "scopes"
    with pytest.raises(Invalid):
        token(lead, service, expires_in_days=366)
    with pytest.raises(Forbidden):
        token(alice, service)
    made, secret = token(lead, service, "jobs:read", expires_in_days=2)
    assert Caller(secret).get("/jobs/").status_code == 200
    problem_of(Caller(secret).post("/jobs/", {}), 403, "scope_missing")
    assert authenticate_token(secret, now=timezone.now() + timedelta(days=3)) is None
    revoke_service_token(actor=lead, token=made)
    problem_of(Caller(secret).get("/jobs/"), 401)


def test_ending_it_ends_its_tokens(lead, alice, service):
    _, secret = token(lead, service)
    with pytest.raises(Forbidden):
        end_service_account(actor=alice, account=service)
    end_service_account(actor=lead, account=service)
    problem_of(Caller(secret).get("/me/"), 401)
    for deed in (
        lambda: end_service_account(actor=lead, account=service),
        lambda: token(lead, service),
    ):
        with pytest.raises(Conflict):
            deed()
    with pytest.raises(Invalid, match="taken"):
        make_service_account(actor=lead, team=service.service_team, name="ci")


def test_nobody_signs_in_as_it(service):
    assert not service.has_usable_password()
    browser = Client()
    for password in ("", PASSWORD, service.password):
        browser.post("/accounts/login/", {"login": service.username, "password": password})
        assert "_auth_user_id" not in browser.session


def test_it_holds_no_role_of_people(root, lead, alice, service, team, other_team):
    with pytest.raises(Invalid, match="people"):
        give_role(actor=root, user=service, role="operator")
    with pytest.raises(Invalid, match="its own team"):
        add_member(actor=root, team=other_team, user=service)
    start = timezone.now()
    with pytest.raises(Invalid):
        delegate(
            actor=lead,
            deputy=service,
            scope="manage_team",
            starts_at=start,
            ends_at=start + timedelta(days=1),
        )
    assert not acting_for(service, "manage_team", team)
    with pytest.raises(Invalid, match="svc-"):
        create_user(username="SVC-Alice", email="x@example.org", password=PASSWORD)


@pytest.mark.parametrize("name", ["", "svc-", "Ci", "a b", "x" * 64, "ä", "../x", "-x"])
def test_bad_names_are_refused(lead, team, name):
    with pytest.raises(Invalid) as refused:
        make_service_account(actor=lead, team=team, name=name)
    assert refused.value.field == "name"


def test_only_leads_make_them_and_all_of_it_is_audited(root, alice, operator, lead, team):
    for nobody in (alice, operator):
        with pytest.raises(Forbidden):
            make_service_account(actor=nobody, team=team, name="x")
    made = make_service_account(actor=lead, team=team, name="x")
    token(lead, made)
    end_service_account(actor=lead, account=made)
    done = AuditEvent.objects.filter(actor=lead).order_by("pk").values_list("action", flat=True)
    assert list(done) == ["service_account.make", "token.issue", "service_account.end"]
