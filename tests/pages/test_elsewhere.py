"""Signing in at an identity provider that runs beside the tests."""

from __future__ import annotations

import json

import pytest
from allauth.socialaccount.models import SocialAccount
from django.urls import reverse
from requests import Response

from accounts.models import AuditEvent, Role, User
from accounts.services import invite
from portal import limits
from portal.pages.signing.provider import Endpoints
from tests.factories import PASSWORD
from tests.identity_provider import believe, running, sign_in, way_there

pytestmark = pytest.mark.django_db


def someone(client) -> User:
    return User.objects.get(pk=client.session["_auth_user_id"])


def words(answer) -> str:
    return answer.content.decode()


def test_the_first_sign_in_makes_the_person_and_gives_what_their_groups_give(
    client, provider, rule, team
):
    provider.tells(
        "u1",
        preferred_username="Zoë.Example@corp",
        name="Zoë Example",
        email="zoe@corp.example",
        email_verified=True,
        groups=["/ml/vision", "/else"],
    )
    assert b"Sign in with Work" in client.get(reverse("account_login")).content
    there = way_there(client, next="/jobs/")
    assert "code_challenge_method=S256" in there and "state=" in there
    answer = client.get(provider.lets_in(there, "u1"))
    assert (answer.status_code, answer.url) == (302, "/jobs/")
    zoe = someone(client)
    assert (zoe.username, zoe.display_name) == ("Zoe.Example", "Zoë Example")
    assert (zoe.email, zoe.has_usable_password()) == ("zoe@corp.example", False)
    assert zoe.memberships.get().team == team
    account = SocialAccount.objects.get()
    assert (account.provider, account.uid) == (provider.issuer, "u1")
    told = set(AuditEvent.objects.filter(subject_label__startswith="Zoe").values_list("action"))
    assert told == {("person.create",), ("identity.link",), ("member.add",)}


def test_the_second_sign_in_is_the_same_person_whatever_else_is_said(client, provider, rule):
    provider.tells("u2", preferred_username="kim", groups=["/ml/vision"])
    sign_in(client, provider, "u2")
    kim = someone(client)
    client.logout()
    provider.tells("u2", preferred_username="root", email="root@example.org", groups=[])
    assert sign_in(client, provider, "u2").url == "/"
    assert someone(client) == kim
    assert not kim.memberships.exists()


def test_a_claimed_address_takes_over_nobody(client, provider, rule, alice):
    provider.tells(
        "u3", email="Alice@example.org", email_verified=True, groups=["/ml/vision"], name="Alice"
    )
    answer = sign_in(client, provider, "u3")
    assert answer.status_code == 403
    assert "already" in words(answer) and "Profile" in words(answer)
    assert not SocialAccount.objects.exists() and not client.session.get("_auth_user_id")
    # An address that is not proven is no address.
    provider.tells("u3", email="alice@example.org", groups=["/ml/vision"], name="Alice")
    sign_in(client, provider, "u3")
    assert (someone(client).username, someone(client).email) == ("Alice-2", "")


@pytest.mark.parametrize(
    ("claims", "username"),
    [
        ({"preferred_username": "svc-build"}, "person-svc-build"),
        ({"preferred_username": "me"}, "person-me"),
        ({"preferred_username": "<script>alert(1)</script>", "name": "<b>x</b>"}, None),
        ({"preferred_username": "x" * 20_000, "name": "n\x00" * 5_000}, None),
        (
            {"preferred_username": ["a"], "name": {"b": 1}, "email": 7, "email_verified": "yes"},
            None,
        ),
        ({"email": "no address", "email_verified": True}, "person"),
    ],
)
def test_hostile_claims_are_harmless(client, provider, rule, claims, username):
    provider.tells("odd", groups=["/ml/vision", "\x00", 7, None], **claims)
    assert sign_in(client, provider, "odd").status_code == 302
    person = someone(client)
    assert person.email == "" and len(person.username) <= 80
    assert username in (None, person.username)
    assert "<b>x</b>" not in words(client.get(reverse("profile")))
    assert not person.is_superuser


def test_who_has_no_group_with_a_rule_stays_outside(client, provider, rule):
    provider.tells("u4", groups=["/else"])
    answer = sign_in(client, provider, "u4")
    assert answer.status_code == 403 and "None of your groups" in words(answer)
    assert not User.objects.filter(username__startswith="person").exists()


def test_a_domain_lets_in_whose_address_is_proven(client, provider, settings):
    settings.OIDC_NEW_PEOPLE, settings.OIDC_DOMAINS = "domains", ["corp.example"]
    provider.tells("u5", email="eve@corp.example", email_verified=False)
    assert sign_in(client, provider, "u5").status_code == 403
    provider.tells("u5", email="eve@CORP.example", email_verified=True)
    assert sign_in(client, provider, "u5").status_code == 302


def test_an_invitation_lets_in_whoever_follows_its_link_once(
    client, provider, settings, root, team
):
    settings.OIDC_NEW_PEOPLE = "invited"
    provider.tells("u6", preferred_username="ivy", email="other@corp.example", email_verified=True)
    assert "Nobody here knows you" in words(sign_in(client, provider, "u6"))
    _, secret = invite(actor=root, team=team, email="ivy@example.org", role=Role.LEAD)
    page = words(client.get(reverse("invitation", args=[secret])))
    assert "Join with Work" in page
    sign_in(client, provider, "u6", invitation=secret)
    ivy = someone(client)
    assert (ivy.email, ivy.memberships.get().role) == ("ivy@example.org", Role.LEAD)
    client.logout()
    answer = sign_in(client, provider, "u7", invitation=secret)
    assert answer.status_code == 403 and "no longer open" in words(answer)


def test_an_invitation_to_somebody_elses_address_opens_nothing_of_theirs(
    client, provider, root, other_team, alice
):
    _, secret = invite(actor=root, team=other_team, email="alice@example.org")
    answer = sign_in(client, provider, "u8", invitation=secret)
    assert answer.status_code == 403 and "already" in words(answer)
    assert not alice.memberships.filter(team=other_team).exists()


def test_who_is_deactivated_is_refused(client, provider, rule):
    provider.tells("u9", preferred_username="gone", groups=["/ml/vision"])
    sign_in(client, provider, "u9")
    client.logout()
    User.objects.filter(username="gone").update(is_active=False)
    provider.tells("u9", preferred_username="gone", groups=[])
    assert sign_in(client, provider, "u9").url == reverse("account_inactive")
    assert not client.session.get("_auth_user_id")
    assert User.objects.get(username="gone").memberships.exists(), "and nothing is changed"


def test_an_answer_that_nobody_here_asked_for_is_refused(client, provider, rule, alice):
    back = provider.lets_in(way_there(client), "f1")
    forged = client.get(back.replace("state=", "state=x"))
    assert forged.status_code == 403 and "no sign-in that began in this browser" in words(forged)
    client.cookies.clear()
    assert client.get(back).status_code == 403, "another browser"
    mixed = client.get(
        f"{reverse('account_elsewhere_back')}?code=1&state=2&iss=https://evil.example"
    )
    assert mixed.status_code == 403 and "not from" in words(mixed)


def test_an_answer_serves_once(client, provider, rule):
    provider.tells("o1", groups=["/ml/vision"])
    back = provider.lets_in(way_there(client), "o1")
    assert client.get(back).status_code == 302
    assert client.get(back).status_code == 403


def test_who_does_not_agree_is_told_what_to_do(client, provider):
    answer = client.get(provider.is_refused(way_there(client)))
    assert answer.status_code == 403
    assert "Back to sign-in" in words(answer)


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"aud": "somebody else"},
        {"exp": 1},
        {"azp": "somebody else"},
        {"nbf": 99_999_999_999},
    ],
)
def test_a_token_that_is_not_for_us_opens_nothing(client, provider, rule, claims):
    provider.tells("t1", groups=["/ml/vision"], **claims)
    answer = sign_in(client, provider, "t1")
    assert (answer.status_code, someone_or_none(client)) == (502, None)
    assert "cannot be trusted" in words(answer)


def test_a_subject_that_cannot_be_kept_is_no_500(client, provider, rule):
    assert sign_in(client, provider, "x" * 300).status_code == 502


def test_token_and_userinfo_are_of_one_person(client, provider, rule, monkeypatch):
    told = {"sub": "somebody else", "groups": ["/ml/vision"]}
    monkeypatch.setattr(Endpoints, "_fetch_user_info", lambda *_: told)
    assert sign_in(client, provider, "t2").status_code == 502


def test_a_token_signed_by_somebody_else_opens_nothing(client, provider, rule, monkeypatch):
    with running() as other:
        there = {"jwks_uri": f"{other.issuer}/jwks"}
        discovered = Endpoints._discovered
        monkeypatch.setattr(Endpoints, "_discovered", lambda self: {**discovered(self), **there})
        assert sign_in(client, provider, "t3").status_code == 502
    assert someone_or_none(client) is None


def someone_or_none(client):
    return client.session.get("_auth_user_id")


def test_while_the_provider_is_away_passwords_go_on(client, settings, alice):
    believe(settings, "http://localhost:9")
    answer = client.post(reverse("account_elsewhere"))
    assert answer.status_code == 503 and "does not answer" in words(answer)
    assert client.get(reverse("account_login")).status_code == 200
    client.post(reverse("account_login"), {"login": "alice", "password": PASSWORD})
    assert someone(client) == alice


def test_ways_there_are_limited_by_address(client, provider, settings):
    settings.CALLS_PER_MINUTE = {**settings.CALLS_PER_MINUTE, "elsewhere": 1}
    limits.forget()
    assert [client.post(reverse("account_elsewhere")).status_code for _ in range(2)] == [200, 429]
    limits.forget()


@pytest.mark.parametrize(
    "told",
    [
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://evil.example/\r\nSet-Cookie: a=b"},
        {"token_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
        [],
    ],
)
def test_a_provider_that_tells_nonsense_of_itself_is_no_500(client, provider, monkeypatch, told):
    there = {"issuer": provider.issuer, "authorization_endpoint": "https://x.example/a"}
    there |= {"token_endpoint": "https://x.example/t", "jwks_uri": "https://x.example/k"}
    answer = json.dumps({**there, **told} if told else told).encode()
    monkeypatch.setattr(Response, "iter_content", lambda *_: iter([answer]))
    assert client.post(reverse("account_elsewhere")).status_code == 502


@pytest.mark.parametrize("size", [300_000, 5])
def test_answers_that_are_large_or_no_json_are_no_500(client, provider, monkeypatch, size):
    monkeypatch.setattr(Response, "iter_content", lambda *_: iter([b"x" * size]))
    assert client.post(reverse("account_elsewhere")).status_code in (502, 503)


def test_another_provider_at_the_same_address_is_not_believed(client, provider, settings):
    settings.OIDC_ISSUER = provider.issuer.replace("localhost", "127.0.0.1")
    # It answers there as well, and calls itself what it was asked by: so the path is another one.
    settings.OIDC_ISSUER = f"{provider.issuer}/"
    assert client.post(reverse("account_elsewhere")).status_code == 502
