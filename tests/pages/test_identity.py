"""Linking an account elsewhere, showing there again who one is, and passwords beside it."""

from __future__ import annotations

import time

import pytest
from allauth.socialaccount.models import SocialAccount
from django.urls import reverse

from accounts.models import Role, User
from accounts.services import add_member
from tests.factories import PASSWORD
from tests.identity_provider import sign_in, way_there

pytestmark = pytest.mark.django_db


def someone(client) -> User:
    return User.objects.get(pk=client.session["_auth_user_id"])


def words(answer) -> str:
    return answer.content.decode()


def test_the_signed_in_person_links_and_unlinks(client, provider, rule, alice, bob):
    client.force_login(alice)
    provider.tells("a1", preferred_username="alice.a", groups=[])
    back = provider.lets_in(way_there(client, "account_link"), "a1")
    assert client.get(back).url == reverse("profile")
    assert "alice.a" in words(client.get(reverse("profile")))
    client.logout()
    sign_in(client, provider, "a1")
    assert someone(client) == alice
    # Somebody else cannot have the same one.
    client.force_login(bob)
    answer = client.get(provider.lets_in(way_there(client, "account_link"), "a1"))
    assert answer.status_code == 403 and "Somebody else here" in words(answer)
    client.force_login(alice)
    client.post(reverse("account_unlink"))
    assert not SocialAccount.objects.exists()


def test_who_has_no_password_cannot_unlink_nor_get_one(client, provider, rule, mailoutbox):
    provider.tells("b1", email="pat@corp.example", email_verified=True, groups=["/ml/vision"])
    sign_in(client, provider, "b1")
    client.post(reverse("account_unlink"))
    assert SocialAccount.objects.exists()
    assert client.get(reverse("account_set_password")).status_code == 302
    client.logout()
    client.post(reverse("account_reset_password"), {"email": "pat@corp.example"})
    assert "/password/reset/key/" not in mailoutbox[0].body


def test_passwords_may_be_for_administrators_alone(client, provider, settings, root, alice):
    settings.OIDC_PASSWORDS = "administrators"
    page = words(client.get(reverse("account_login")))
    assert "Administrators sign in with a password" in page
    client.post(reverse("account_login"), {"login": "alice", "password": PASSWORD})
    assert "_auth_user_id" not in client.session
    client.post(reverse("account_login"), {"login": "root", "password": PASSWORD})
    assert someone(client) == root


def test_the_provider_is_asked_again_before_doors_are_opened(client, provider, rule, settings):
    now = int(time.time())
    provider.tells("p1", preferred_username="pim", groups=["/ml/vision"])
    sign_in(client, provider, "p1")
    settings.PASSWORD_AGAIN_S = 1
    session = client.session
    session["began"] = now - 100
    session["account_authentication_methods"] = []
    session.save()
    form = {"name": "laptop", "scopes": ["jobs:read"], "expires_in_days": "30"}
    asked = client.post(reverse("tokens:list"), form)
    assert asked.url.startswith(reverse("account_reauthenticate"))
    page = words(client.get(asked.url))
    assert "Sign in again with Work" in page and 'type="password"' not in page
    there = way_there(client, "account_elsewhere_again", next=reverse("tokens:list"))
    assert "prompt=login" in there and "max_age=0" in there
    pim = someone(client)
    # One who is somebody else, or was not asked, opens nothing.
    assert client.get(provider.lets_in(there, "p2")).status_code == 403
    provider.tells("p1", auth_time=now - 5000)
    there = way_there(client, "account_elsewhere_again", next=reverse("tokens:list"))
    assert "did not ask again" in words(client.get(provider.lets_in(there, "p1")))
    assert not pim.api_tokens.exists()
    provider.tells("p1", auth_time=int(time.time()))
    there = way_there(client, "account_elsewhere_again", next=reverse("tokens:list"))
    done = client.get(provider.lets_in(there, "p1"))
    assert done.status_code in (200, 302)
    assert pim.api_tokens.get().name == "laptop"


def test_without_a_provider_there_is_no_trace_of_one(client, alice):
    assert b"elsewhere" not in client.get(reverse("account_login")).content
    assert client.post(reverse("account_elsewhere")).status_code == 404
    assert client.get(reverse("account_elsewhere_back")).status_code == 404
    client.force_login(alice)
    assert client.post(reverse("account_link")).status_code == 404


def test_what_a_person_gave_by_hand_stays(client, provider, root, rule, team, other_team):
    provider.tells("h1", preferred_username="hal", groups=["/ml/vision"])
    sign_in(client, provider, "h1")
    hal = someone(client)
    add_member(actor=root, team=other_team, user=hal, role=Role.LEAD)
    provider.tells("h1", preferred_username="hal", groups=[])
    client.logout()
    sign_in(client, provider, "h1")
    assert [each.team for each in hal.memberships.all()] == [other_team]
