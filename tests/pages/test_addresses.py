"""The pages on which a mail address changes."""

from __future__ import annotations

import re

import pytest
from django.conf import settings as django_settings
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from accounts.adapter import BEGAN
from accounts.models import AddressChange, User
from portal import limits
from portal.settings import limits as usual
from tests.addresses import asked
from tests.factories import PASSWORD

pytestmark = [pytest.mark.django_db, pytest.mark.once]

NEW = "alice@new.example"
ASK = "/settings/profile/address/"
AGAIN = "/accounts/reauthenticate/"


@pytest.fixture(autouse=True)
def fresh_limits(db):
    cache.clear()


@pytest.fixture
def hers(client, alice) -> Client:
    client.force_login(alice)
    return client


def words(answer) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())


def email_of(person) -> str:
    return User.objects.get(pk=person.pk).email


def test_asked_for_on_the_profile_and_confirmed_from_the_letter(
    hers, alice, mailoutbox, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        page = words(hers.post(ASK, {"email": NEW}, follow=True))
    assert f"A letter to {NEW} is on its way" in page
    assert f"{NEW} waits to be confirmed" in page and "Send again" in page
    assert email_of(alice) == "alice@example.org"
    link = re.search(r"https?://[^/]+(/addresses/confirm/\S+)", mailoutbox[0].body)[1]
    seen = Client().get(link)
    assert "no-store" in seen["Cache-Control"] and NEW in words(seen)
    assert email_of(alice) == "alice@example.org"  # looking is not following
    done = hers.post(link, follow=True)
    assert f"Your mail address is {NEW} now." in words(done)
    assert email_of(alice) == NEW
    assert Client().get(link).status_code == 404


def test_the_password_is_asked_again_and_then_it_goes_on(hers):
    session = hers.session
    session[BEGAN] -= 901
    session.save()
    asks = hers.post(ASK, {"email": NEW})
    assert asks.url.startswith(AGAIN) and not AddressChange.objects.exists()
    hers.post(AGAIN, {"password": PASSWORD, "next": ASK})
    assert AddressChange.objects.get().new_email == NEW


def test_what_is_wrong_is_said_at_the_field_with_what_was_typed(hers):
    page = hers.post(ASK, {"email": "alice at home"})
    assert "This is not an e-mail address." in words(page)
    assert 'value="alice at home"' in words(page)
    assert "address already" in words(hers.post(ASK, {"email": "alice@example.org"}))
    assert hers.get(ASK).url == reverse("profile")


def test_it_was_not_them(client, alice):
    link, undo = asked(alice, NEW)
    assert Client().post(f"/addresses/confirm/{link}/").status_code == 200
    there = f"/addresses/undo/{undo}/"
    page = words(client.get(there))
    assert "was changed to alice@new.example" in page and "It was not me" in page
    done = words(client.post(there))
    assert email_of(alice) == "alice@example.org"
    assert "Set a new password now" in done and reverse("account_reset_password") in done
    for gone in (there, "/addresses/undo/x/", "/addresses/confirm/x/"):
        assert client.get(gone).status_code == 404


def test_an_administrator_sends_a_link_or_sets_it_with_a_reason(root, alice, client):
    client.force_login(root)
    there = "/ops/users/alice/address/"
    sent = {"email": NEW, "how": "link", "reason": "lost her mailbox"}
    page = words(client.post(there, {**sent, "reason": ""}, follow=True))
    assert "Reason" in page and not AddressChange.objects.exists()
    page = words(client.post(there, sent, follow=True))
    assert f"{NEW} waits to be confirmed" in page
    assert "The address of Alice stays as it is" in words(
        client.post(f"{there}cancel/", follow=True)
    )
    client.post(there, {**sent, "how": "now"})
    assert email_of(alice) == NEW
    # On one's own page there is no such form.
    assert there.replace("alice", "root") not in words(client.get("/ops/users/root/"))


def test_what_an_administrator_asked_for_is_confirmed_signed_in(root, alice, bob, client):
    link, _ = asked(alice, NEW)
    AddressChange.objects.update(asked_by=root)
    there = f"/addresses/confirm/{link}/"
    for reader in (None, bob):
        if reader:
            client.force_login(reader)
        page = words(client.post(there))
        assert "Sign in as" in page and email_of(alice) == "alice@example.org"
    client.force_login(alice)
    client.post(there)
    assert email_of(alice) == NEW


def test_who_does_not_decide_is_told_who_does(settings, hers):
    settings.MAIL_ADDRESSES = "administrators"
    page = words(hers.get("/settings/profile/"))
    assert "Administrators change mail addresses here" in page and ASK not in page
    assert hers.post(ASK, {"email": NEW}).status_code == 403


def test_letters_have_a_limit_of_a_person_and_of_an_address(settings, alice, bob, client):
    settings.CALLS_PER_MINUTE = {**django_settings.CALLS_PER_MINUTE, "letter": 2 / 60}
    settings.CALLS_AT_ONCE = {"letter": 2}
    limits.forget()
    client.force_login(alice)
    answers = [client.post(ASK, {"email": f"{n}@new.example"}).status_code for n in "xyz"]
    assert answers == [302, 302, 429]
    client.force_login(bob)
    assert client.post(ASK, {"email": "X@new.example"}).status_code == 302
    assert client.post(ASK, {"email": "x@new.example"}).status_code == 429
    assert usual.CALLS_AT_ONCE["letter"] == 10
    limits.forget()
