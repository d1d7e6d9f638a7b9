"""Teams, members and projects as people see them."""

from __future__ import annotations

import re

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse

from accounts.models import Invitation, Membership, Project, Role
from accounts.services import create_team, give_role, make_service_account, remove_member
from portal import limits
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db

# B1-B12: what is refused as a name, and what is shown safely instead.
REFUSED = ["", "   ", "x" * 129, "a\nb", "a\x00b", "e" + "\u0301" * 9, "\u200b\u200b"]
SHOWN = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}} {% debug %}",
    "abc\u202edef",
]


@pytest.fixture
def as_(client):
    def sign_in(user):
        client.force_login(user)
        return client

    return sign_in


def test_a_lead_sees_members_and_projects(as_, lead, alice, team, project):
    page = as_(lead).get("/teams/vision/members/").content.decode()
    assert "Alice" in page
    assert "vision/digits" in page
    assert "Create project" in page


def test_a_member_sees_no_buttons_of_a_lead(as_, alice, team, project):
    page = as_(alice).get("/teams/vision/members/").content.decode()
    assert "vision/digits" in page
    assert "Create project" not in page
    assert "Remove" not in page


def test_a_stranger_sees_what_a_missing_team_shows(as_, carol, team):
    client = as_(carol)
    foreign, missing = client.get("/teams/vision/members/"), client.get("/teams/nothing/")
    assert foreign.status_code == missing.status_code == 404
    assert foreign.content == missing.content


def test_a_lead_creates_and_archives_a_project(as_, lead, team):
    client = as_(lead)
    client.post("/teams/vision/projects/", {"project-name": "Segment Anything"})
    project = Project.objects.get(slug="segment-anything")
    client.post(f"/teams/vision/projects/{project.slug}/archive/", {"archived": "true"})
    project.refresh_from_db()
    assert project.is_archived


@pytest.mark.parametrize("name", REFUSED)
def test_bad_names_are_refused_at_the_field(as_, lead, team, name):
    answer = as_(lead).post("/teams/vision/projects/", {"project-name": name, "project-slug": "ok"})
    assert answer.status_code == 200
    assert "project-name" in answer.context["project_form"].add_prefix("name")
    assert answer.context["project_form"].errors["name"]
    assert not Project.objects.exists()


@pytest.mark.parametrize("name", SHOWN)
def test_odd_names_are_shown_as_text(as_, lead, team, name):
    client = as_(lead)
    client.post("/teams/vision/projects/", {"project-name": name, "project-slug": "odd"})
    page = client.get("/teams/vision/members/").content.decode()
    assert Project.objects.get().name == name
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "49" not in re.findall(r"<bdi[^>]*>(.*?)</bdi>", page)
    assert "<bdi" in page


def test_a_name_that_looks_like_another_is_refused(as_, lead, project):
    for twin in ("DIGITS", "D\u0456gits", "Dig\u200bits", "Ｄigits"):
        answer = as_(lead).post(
            "/teams/vision/projects/", {"project-name": twin, "project-slug": "twin"}
        )
        assert answer.context["project_form"].errors["name"], twin


def test_members_cannot_do_what_leads_do(as_, alice, bob, team):
    client = as_(alice)
    member = Membership.objects.get(user=bob)
    for path, body in [
        ("/teams/vision/projects/", {"project-name": "X"}),
        ("/teams/vision/invite/", {"invite-email": "a@b.org", "invite-role": "member"}),
        (f"/teams/vision/members/{member.pk}/remove/", {}),
        (f"/teams/vision/members/{member.pk}/role/", {"role": "lead"}),
    ]:
        assert client.post(path, body).status_code == 403, path
    assert Membership.objects.filter(user=bob, role=Role.MEMBER).exists()


def test_a_lead_cannot_make_an_operator(as_, lead, bob, team):
    member = Membership.objects.get(user=bob)
    answer = as_(lead).post(f"/teams/vision/members/{member.pk}/role/", {"role": "operator"})
    assert answer.status_code == 403
    member.refresh_from_db()
    assert member.role == Role.MEMBER


def test_removal_ends_access_with_the_next_request(as_, lead, bob, project):
    theirs = Client()
    theirs.force_login(bob)
    assert theirs.get("/teams/vision/members/").status_code == 200
    member = Membership.objects.get(user=bob)
    as_(lead).post(f"/teams/vision/members/{member.pk}/remove/")
    assert theirs.get("/teams/vision/members/").status_code == 404


def test_the_last_lead_may_not_leave(as_, root, alice, team):
    answer = as_(root).post("/teams/vision/leave/", follow=True)
    assert "last lead" in answer.content.decode()
    as_(alice).post("/teams/vision/leave/")
    assert not Membership.objects.filter(user=alice).exists()


def _invite(client, role="member"):
    client.post("/teams/vision/invite/", {"invite-email": "new@example.org", "invite-role": role})
    return re.search(r"/invitations/([\w-]+)/", mail.outbox[-1].body).group(0)


def test_an_invited_person_makes_an_account_once(as_, lead, team):
    link = _invite(as_(lead))
    guest = Client()
    assert guest.get(link).status_code == 200
    weak = guest.post(link, {"username": "newbie", "password": "123"})
    assert weak.context["form"].errors["password"]
    assert guest.post(link, {"username": "newbie", "password": PASSWORD}).status_code == 302
    assert guest.get("/teams/vision/members/").status_code == 200
    assert Client().get(link).status_code == 404


def test_someone_signed_in_joins_with_one_click(as_, lead, carol, team):
    link = _invite(as_(lead), "finance")
    theirs = Client()
    theirs.force_login(carol)
    theirs.post(link)
    assert Membership.objects.get(user=carol, team=team).role == Role.FINANCE


def test_who_is_in_the_team_already_is_told_that_their_role_stays(as_, lead, root, team):
    link = _invite(as_(root), "finance")
    theirs = Client()
    theirs.force_login(lead)
    assert "already, as lead; that stays" in theirs.post(link, follow=True).content.decode()
    assert Membership.objects.get(user=lead, team=team).role == Role.LEAD


def test_invitations_of_one_person_have_a_limit(as_, lead, team, settings):
    limits.forget()
    settings.CALLS_PER_MINUTE = {**settings.CALLS_PER_MINUTE, "invite": 2}
    client, sent = as_(lead), {"invite-email": "a@b.org", "invite-role": "member"}
    got = [client.post("/teams/vision/invite/", sent).status_code for _ in range(3)]
    limits.forget()
    assert (got, len(mail.outbox)) == ([200, 200, 429], 2)


def test_a_withdrawn_invitation_is_gone(as_, lead, team):
    client = as_(lead)
    link = _invite(client)
    client.post(f"/teams/vision/invitations/{Invitation.objects.get().pk}/revoke/")
    assert Client().get(link).status_code == 404


def test_lists_cost_the_same_queries_for_few_and_many(
    as_, root, team, lead, django_assert_max_num_queries
):
    from accounts.services import create_project, create_team
    from tests.factories import member

    client = as_(lead)
    counts = []
    for size in (2, 20):
        for number in range(size):
            create_project(actor=lead, team=team, name=f"p{size}-{number}")
            member(f"u{size}-{number}", team, by=root)
        with django_assert_max_num_queries(16) as captured:
            client.get("/teams/vision/members/")
        counts.append(len(captured.captured_queries))
    assert counts[0] == counts[1]
    create_team(actor=root, name="Another")


def test_a_lead_renames_the_team_and_its_address_stays(as_, lead, other_team, team):
    client = as_(lead)
    page = client.post("/teams/vision/name/", {"name": "Seeing"}, follow=True)
    assert "The team is called Seeing now." in page.content.decode()
    assert page.redirect_chain[-1][0] == "/teams/vision/members/"
    refused = client.post("/teams/vision/name/", {"name": other_team.name.upper()})
    assert "looks alike" in refused.content.decode()
    team.refresh_from_db()
    assert team.name == "Seeing"


def test_only_roles_that_the_viewer_may_give_are_offered(as_, lead, root, team):
    page = as_(lead).get("/teams/vision/members/").content.decode()
    assert '<option value="finance"' in page
    assert '<option value="operator"' not in page
    assert '<option value="operator"' in as_(root).get("/teams/vision/members/").content.decode()


def test_the_list_says_what_ones_part_in_a_team_is(as_, root, alice, bob, lead, team, other_team):
    def parts(user):
        page = as_(user).get("/teams/").content.decode()
        return re.findall(r'data-l="role">([^<]*)<', page)

    create_team(actor=lead, name="Below", parent=team)
    give_role(actor=root, user=bob, role="auditor")
    remove_member(actor=root, team=team, user=bob)
    Membership.objects.filter(team__slug="below").delete()
    assert parts(alice) == ["Member"]
    assert sorted(parts(lead)) == ["Lead", "Leads a team above"]
    assert parts(bob) == ["–", "–", "–"]
    Membership.objects.filter(user=root, team=other_team).delete()
    assert sorted(parts(root)) == ["Administrator", "Administrator", "Lead"]
    client = as_(root)
    client.post(reverse("preview"), {"role": "finance", "team": "vision"})
    page = client.get("/teams/").content.decode()
    assert re.findall(r'data-l="role">([^<]*)<', page) == ["Finance"]


def test_beside_a_new_token_the_form_of_accounts_makes_an_account(as_, lead, team):
    account = make_service_account(actor=lead, team=team, name="ci")
    sent = {"name": "ci", "scopes": ["jobs:read"], "expires_in_days": "30"}
    page = as_(lead).post(f"/teams/vision/services/{account.pk}/token/", sent).content.decode()
    assert "Copy the token" in page
    assert '<form method="post" action="/teams/vision/services/" class="stack-s">' in page
