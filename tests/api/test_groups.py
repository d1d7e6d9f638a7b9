"""What groups at the identity provider give, over REST, from a page and from a shell."""

from __future__ import annotations

import pytest
from django.urls import reverse

from accounts.models import GroupRule
from accounts.services.identities.claims import Claims
from accounts.services.identities.entering import enter
from accounts.services.identities.rules import add_group_rule

pytestmark = pytest.mark.django_db
LIST, PREVIEW = "/api/v1/groups/", "/api/v1/groups/preview/"


@pytest.fixture
def kim(settings, root, team):
    settings.OIDC_ISSUER, settings.OIDC_NEW_PEOPLE = "https://login.example.org", "groups"
    add_group_rule(actor=root, group="/ml", team=team, role="member")
    groups = frozenset({"/ml", "/asr"})
    return enter(claims=Claims(settings.OIDC_ISSUER, "1", username="kim", groups=groups))[0].user


def send(client, address, **body):
    return client.post(address, body, content_type="application/json")


def test_an_administrator_looks_adds_and_removes(client, root, kim, other_team):
    client.force_login(root)
    wanted = {"group": "/asr", "team": "speech", "role": "lead"}
    effect = {"username": "kim", "team": "speech", "before": None, "after": "lead"}
    assert send(client, PREVIEW, **wanted).json() == {"items": [effect]}
    rule = send(client, LIST, **wanted)
    assert (rule.status_code, rule.json()["added_by"]) == (201, "root")
    assert [one["group"] for one in client.get(LIST).json()["items"]] == ["/asr", "/ml"]
    ml = GroupRule.objects.get(group="/ml")
    told = send(client, PREVIEW, remove=ml.pk).json()["items"]
    assert told == [{"username": "kim", "team": "vision", "before": "member", "after": None}]
    assert client.delete(f"{LIST}{ml.pk}/").status_code == 204
    assert client.delete(f"{LIST}{ml.pk}/").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"group": "x", "team": "nowhere", "role": "member"}, "team"),
        ({"group": "x", "team": "vision", "role": "operator"}, "role"),
        ({"group": "x", "role": "admin"}, "role"),
        ({"group": "\n", "role": "finance"}, "group"),
    ],
)
def test_bad_input_is_told_by_field(client, root, team, body, field):
    client.force_login(root)
    told = send(client, LIST, **body).json()
    assert field in str(told.get("errors", told))


def test_a_member_is_told_that_they_may_not(client, alice, kim):
    client.force_login(alice)
    assert client.get(LIST).status_code == 403
    assert send(client, PREVIEW, group="x", team="nowhere", role="member").status_code == 403


def test_the_page_looks_first_and_then_does_it(client, root, kim, other_team):
    client.force_login(root)
    wanted = {"group": "/asr", "team": "speech", "role": "member"}
    page = client.get(reverse("groups:list"), wanted).content.decode()
    assert "kim" in page and "member in speech" in page and "Add the rule" in page
    assert not GroupRule.objects.filter(group="/asr").exists()
    assert client.post(reverse("groups:list"), wanted).status_code == 302
    rule = GroupRule.objects.get(group="/asr")
    page = client.get(reverse("groups:list"), {"remove": rule.pk}).content.decode()
    assert "Without the rule" in page and "Remove the rule" in page
    client.post(reverse("groups:remove", args=[rule.pk]))
    assert not GroupRule.objects.filter(group="/asr").exists()
    page = client.post(reverse("groups:list"), {**wanted, "team": "nowhere"}).content.decode()
    assert "There is no team" in page


def test_the_teams_page_and_the_roles_say_who_gave_it(client, root, team, kim):
    client.force_login(root)
    assert b"by groups elsewhere" in client.get(reverse("teams:detail", args=["vision"])).content
    assert client.get("/api/v1/roles/").json()["items"][0]["by_groups"] is False
    assert b"signs in elsewhere" in client.get(reverse("users:detail", args=["kim"])).content
