"""Narrowing pages to a team or project: by the address, kept for the person, never a stranger's."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from accounts.services import add_member, create_project, create_team
from portal.pages.scope import choosing
from scheduler.selectors.saved import scopes
from tests import scenes
from tests.factories import member, person

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture
def lead() -> User:
    """Leads Vision with Edge below it, and Speech; one queued job each; Foreign is another's."""
    root = person("root", is_superuser=True)
    scenes.build_cluster(root, nodes=1, gpus=1)
    lead = person("lena")
    vision = create_team(actor=root, name="Vision")
    for name, parent in (("Edge", vision), ("Speech", None), ("Foreign", None)):
        team = create_team(actor=root, name=name, parent=parent)
        somebody = member(f"of-{team.slug}", team, "lead", by=root)
        project = create_project(actor=somebody, team=team, name=f"{name} work")
        if name != "Foreign":
            add_member(actor=root, team=team, user=lead, role="lead")
        by = User.objects.get(pk=(somebody if name == "Foreign" else lead).pk)
        scenes.submit(by, project, name=f"job-of-{team.slug}", now=timezone.now())

    add_member(actor=root, team=vision, user=lead, role="lead")
    return User.objects.get(pk=lead.pk)


def test_a_scope_narrows_pages_and_is_kept(lead: User, client: Client) -> None:
    client.force_login(lead)
    for address in ("/", "/jobs/", "/queue/"):
        html = client.get(address).content.decode()
        assert "job-of-edge" in html and "job-of-speech" in html, address
        # A team brings the teams below it along.
        html = client.get(address, {"scope": "team:vision"}).content.decode()
        assert "job-of-edge" in html and "job-of-speech" not in html, address
        html = client.get(address, {"scope": "project:speech/speech-work"}).content.decode()
        assert "job-of-edge" not in html and "job-of-speech" in html, address
    assert "outside team" not in html and "outside speech/speech-work" in html
    for scope in ("team:foreign", "team:nobody", "nothing", "project:foreign/foreign-work"):
        html = client.get("/jobs/", {"scope": scope}).content.decode()
        assert "for you, so nothing was left out" in html and "job-of-foreign" not in html

    sent = {"scope": "team:vision", "next": "/jobs/?q=state:queued&cursor=x&scope=all"}
    answer = client.post("/settings/scope/", sent)
    assert answer["Location"] == "/jobs/?q=state:queued&scope=team:vision"
    for address in ("/", "/jobs/", "/queue/", "/usage/", "/sessions/"):
        assert client.get(address)["Location"] == f"{address}?scope=team:vision"
        assert client.get(address, {"scope": "all"}).status_code == 200
    html = client.get("/help/").content.decode()
    assert 'href="/jobs/?scope=team:vision"' in html and '<bdi class="clip">vision' in html
    # What is kept never empties a link that somebody else sent.
    assert "job-of-speech" in client.get("/jobs/", {"q": "state:queued"}).content.decode()


def test_choices_are_ones_own_and_the_way_back_is_ours(lead: User, client: Client) -> None:
    client.force_login(lead)
    html = client.get("/settings/scope/", {"part": "menu", "next": "//evil.example/"}).content
    assert b"Edge work" in html and b"Foreign" not in html and b"evil" not in html
    assert b"Speech" not in client.get("/settings/scope/", {"q": "edge"}).content
    answer = client.post("/settings/scope/", {"scope": "team:foreign", "next": "/jobs/"})
    assert answer["Location"] == "/settings/scope/"
    answer = client.post("/settings/scope/", {"scope": "", "next": "https://evil.example/"})
    assert answer["Location"] == "/?scope=all"
    assert User.objects.get(pk=lead.pk).scope is None
    # Who has lost the team sees everything that is theirs again.
    client.post("/settings/scope/", {"scope": "team:speech"})
    lead.memberships.filter(team__slug="speech").delete()
    lead.groups.filter(name__contains=":").delete()
    assert client.get("/jobs/").status_code == 200


def test_more_than_are_offered_are_found_by_a_few_letters(
    lead: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(lead)
    assert "Find another one" not in client.get("/settings/scope/").content.decode()
    for module in (scopes, choosing):
        monkeypatch.setattr(module, "MOST_OFFERED", 2)
    for part in ("", "menu"):
        html = client.get("/settings/scope/", {"part": part}).content.decode()
        assert "The first 2 teams and 2 projects by name." in html, part
        assert "team:vision" not in html, part
    html = client.get("/settings/scope/", {"q": "visi"}).content.decode()
    assert "team:vision" in html and "Find another one" not in html
