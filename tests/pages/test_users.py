"""People for administrators: found, let in no longer with what that means, and again."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import ApiToken, AuditEvent, User
from accounts.services import issue_token, make_service_account
from accounts.services.ending.access import deactivate_person, reactivate_person
from scheduler import events
from scheduler.states import JobState
from tests import factories, scenes

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_people_are_found_by_name_address_and_team(root, alice, bob, lead, client):
    client.force_login(root)
    everybody = client.get("/ops/users/").content.decode()
    assert 'href="/ops/users/alice/"' in everybody and "administrator" in everybody
    for asked, found, missing in (
        ("ALI", "alice", "bob"),
        (bob.email, "bob", "alice"),
        ("visio", "alice", "/root/"),
    ):
        page = client.get("/ops/users/", {"q": asked}).content.decode()
        assert f"/ops/users/{found}/" in page and f"/ops/users/{missing}/" not in page, asked
    assert "Nobody matches." in client.get("/ops/users/", {"q": "nobody-at-all"}).content.decode()
    wrong = client.get("/ops/users/", {"state": "asleep", "q": "\x00'"}).content.decode()
    assert "state: choose active or inactive." in wrong


def test_a_page_of_many_goes_on_behind_its_last(root, client, django_assert_max_num_queries):
    for number in range(52):
        factories.person(f"p{number:02}")
    client.force_login(root)
    with django_assert_max_num_queries(8):
        first = client.get("/ops/users/").content.decode()
    assert "p49" in first and "p50" not in first
    second = client.get("/ops/users/", {"after": "p49"}).content.decode()
    assert "p51" in second and "p10" not in second


@pytest.mark.parametrize("jobs", ["go", "cancel"])
def test_access_ends_at_once_and_jobs_go_on_or_are_cancelled(root, alice, project, client, jobs):
    scenes.build_cluster(root)
    job = scenes.submit(alice, project)
    token, secret = issue_token(actor=alice, name="laptop", scopes=["jobs:read"])
    browser, api = Client(), {"Authorization": f"Bearer {secret}"}
    browser.force_login(alice)
    assert browser.get("/jobs/").status_code == 200
    assert Client().get("/api/v1/jobs/", headers=api).status_code == 200
    client.force_login(root)
    before = client.get("/ops/users/alice/").content.decode()
    assert "1 API token," in before and "1 waiting or running" in before
    sent = {"jobs": jobs, "reason": "left on 30 November"}
    page = client.post("/ops/users/alice/out/", sent, follow=True).content.decode()
    assert "1 API token, 1 browser session," in page and "Reactivate alice" in page
    assert browser.get("/jobs/").status_code == 302
    assert Client().get("/api/v1/jobs/", headers=api).status_code == 401
    job.refresh_from_db()
    assert (job.state == JobState.CANCELLED) is (jobs == "cancel")
    event = AuditEvent.objects.get(action="person.deactivate")
    assert (event.actor_name, event.reason) == ("root", "left on 30 November")
    client.post("/ops/users/alice/in/", {"reason": "back from leave"})
    alice.refresh_from_db()
    assert alice.is_active and ApiToken.objects.get(pk=token.pk).revoked_at is not None
    again = AuditEvent.objects.get(action="person.reactivate")
    assert (again.actor_name, again.subject_label, again.reason) == (
        "root",
        str(alice),
        "back from leave",
    )
    # What was open in a browser before is not open again.
    assert browser.get("/jobs/").status_code == 302
    assert alice.memberships.exists()


@pytest.mark.parametrize("way", ["browser", "token"])
def test_a_call_that_is_held_ends_with_the_account(root, alice, project, monkeypatch, way):
    scenes.build_cluster(root)
    job = scenes.submit(alice, project)
    _, secret = issue_token(actor=alice, name="laptop", scopes=["jobs:read"])
    caller = Client(headers={"Authorization": f"Bearer {secret}"} if way == "token" else {})
    if way == "browser":
        caller.force_login(alice)
    assert caller.get(f"/api/v1/jobs/{job.pk}/").status_code == 200

    async def meanwhile(topic, is_due, timeout_s):
        await sync_to_async(deactivate_person)(actor=root, user=alice, reason="left")
        assert await is_due()

    monkeypatch.setattr(events, "wait_for_topic", meanwhile)
    assert caller.get(f"/api/v1/jobs/{job.pk}/?wait=60").status_code == 401


def test_two_who_shut_each_other_out_leave_one_behind(root):
    second = factories.person("second", is_superuser=True)
    before = User.objects.get(pk=root.pk)  # as the other's request has read them
    deactivate_person(actor=second, user=root, reason="left")
    with pytest.raises(Forbidden):
        deactivate_person(actor=before, user=second, reason="revenge")
    second.refresh_from_db()
    assert second.is_active


def test_what_must_not_be_is_refused_by_name(root, alice, lead, team):
    with pytest.raises(Forbidden):
        deactivate_person(actor=lead, user=alice, reason="no")
    with pytest.raises(Forbidden, match="themselves"):
        deactivate_person(actor=root, user=root, reason="tired")
    with pytest.raises(Invalid, match="say why"):
        deactivate_person(actor=root, user=alice, reason="  ")
    program = make_service_account(actor=lead, team=team, name="nightly")
    with pytest.raises(Invalid, match="ended by its team"):
        deactivate_person(actor=root, user=program, reason="old")
    second = factories.person("second", is_superuser=True)
    deactivate_person(actor=root, user=second, reason="left")
    with pytest.raises(Conflict, match="not active already"):
        deactivate_person(actor=root, user=second, reason="left")
    root.is_active = True
    with pytest.raises(Conflict, match="active already"):
        reactivate_person(actor=root, user=alice, reason="back")


def test_nobody_else_learns_who_has_an_account(root, alice, operator, lead, client):
    for who in (operator, lead):
        client.force_login(who)
        for path in ("/ops/users/", "/ops/users/alice/", "/ops/users/nobody/", "/ops/users/%00/"):
            assert client.get(path).status_code == 404
    client.force_login(root)
    for path in ("/ops/users/nobody/", "/ops/users/%00/"):
        assert client.get(path).status_code == 404
