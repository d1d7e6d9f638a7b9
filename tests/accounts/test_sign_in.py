"""Signing in, staying in, getting back in: allauth as we set it up."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core import mail
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from accounts.errors import Conflict
from accounts.models import User
from accounts.services import create_first_administrator, remove_member
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_limits(db):
    cache.clear()


def sign_in(client, login, password=PASSWORD, headers=None, **more):
    form = {"login": login, "password": password, **more}
    return client.post(reverse("account_login"), form, headers=headers)


@pytest.mark.parametrize("login", ["alice", "alice@example.org", "ALICE@EXAMPLE.ORG"])
def test_by_user_name_or_address(client, alice, login):
    answer = sign_in(client, login)
    assert (answer.status_code, answer.url) == (302, "/")
    assert client.get("/").context["user"] == alice


def test_wrong_passwords_and_unknown_people_look_the_same(client, alice):
    pages = [sign_in(client, *pair).content.decode() for pair in (("alice", "no"), ("zoe", "no"))]
    said = [re.findall(r"<b>Not signed in.*?</div>", page, re.DOTALL) for page in pages]
    assert said[0] == said[1] != []
    assert client.get("/").status_code == 302


def test_the_session_changes_with_signing_in(client, alice):
    page = client.get(reverse("account_login")).content.decode()
    assert "User name or email" in page and "placeholder" not in page.partition("<main")[2]
    client.post(reverse("theme"), {"theme": "dark"})
    client.session.save()
    before = client.session.session_key
    sign_in(client, "alice")
    assert client.session.session_key != before
    assert client.cookies[settings.SESSION_COOKIE_NAME]["max-age"] == 12 * 3600


@pytest.mark.parametrize(
    ("target", "lands"),
    [
        ("/jobs/", "/jobs/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
def test_it_leads_to_our_own_pages_only(client, alice, target, lands):
    assert sign_in(client, "alice", next=target).url == lands


def test_guessing_is_stopped_for_a_while(client, alice):
    for _ in range(5):
        sign_in(client, "alice", "wrong")
    answer = sign_in(client, "alice")
    assert answer.status_code in (200, 429)
    assert client.get("/").status_code == 302


def test_another_host_gives_no_more_tries_and_another_address_keeps_its_own(client, alice):
    for port in range(5):
        sign_in(client, "alice", "wrong", headers={"host": f"testserver:{9000 + port}"})
    sign_in(client, "Alice", headers={"host": "testserver:9999"})
    assert client.get("/").status_code == 302
    elsewhere = Client(REMOTE_ADDR="192.0.2.7")
    assert sign_in(elsewhere, "alice").url == "/"


def test_attempts_under_other_names_push_out_none(client, alice):
    for _ in range(5):
        sign_in(client, "alice", "wrong")
    for number in range(1000):
        cache.set(f"name-{number}", [0.0])
    sign_in(client, "alice")
    assert client.get("/").status_code == 302


def test_nobody_signs_up_alone(client, root):
    form = {"username": "eve", "email": "eve@example.org", "password1": PASSWORD}
    page = client.post(reverse("account_signup"), form | {"password2": PASSWORD})
    assert page.status_code == 200
    assert "closed" in page.content.decode().lower() or "invit" in page.content.decode().lower()
    assert not User.objects.filter(username="eve").exists()


def test_a_forgotten_password_comes_back_by_mail(client, alice):
    client.post(reverse("account_reset_password"), {"email": "alice@example.org"})
    (letter,) = mail.outbox
    assert letter.to == ["alice@example.org"]
    assert letter.subject.startswith("Trainyard: ")
    assert "\n" not in letter.subject
    link = re.search(r"http://\S+", letter.body).group(0)
    page = client.get(link.removeprefix(settings.PUBLIC_URL), follow=True)
    new = "a much longer secret"
    done = client.post(page.redirect_chain[-1][0], {"password1": new, "password2": new})
    assert done.status_code == 302
    assert sign_in(Client(), "alice").status_code == 200
    assert sign_in(Client(), "alice", new).status_code == 302


@pytest.mark.parametrize("address", ["alice@example.org", "zoe@example.org"])
def test_letters_lead_to_the_portal_whatever_host_was_asked(client, alice, settings, address):
    settings.PUBLIC_URL = "https://trainyard.example"
    where = {"HTTP_HOST": "testserver:9999"}
    client.post(reverse("account_reset_password"), {"email": address}, **where)
    (letter,) = mail.outbox
    assert "9999" not in letter.body
    assert letter.body.endswith("Trainyard, https://trainyard.example")
    links = re.findall(r"http\S+/accounts/\S+", letter.body)
    assert len(links) == (address == "alice@example.org")
    assert all(link.startswith("https://trainyard.example/accounts/password/") for link in links)


def test_asking_for_an_unknown_address_tells_nothing(client, alice):
    known = client.post(reverse("account_reset_password"), {"email": "alice@example.org"})
    unknown = client.post(reverse("account_reset_password"), {"email": "zoe@example.org"})
    assert (known.status_code, known.url) == (unknown.status_code, unknown.url)


@pytest.mark.parametrize("address", ["alice@example.org", "zoe@example.org"])
def test_without_a_mail_server_the_page_is_the_same_for_all(client, alice, monkeypatch, address):
    def away(*_args, **_more):
        raise ConnectionRefusedError("no mail server")

    monkeypatch.setattr(mail.EmailMessage, "send", away)
    answer = client.post(reverse("account_reset_password"), {"email": address})
    assert (answer.status_code, answer.url) == (302, reverse("account_reset_password_done"))


def test_an_administrator_sets_a_password_on_the_machine(client, alice, monkeypatch):
    new = "a much longer secret"
    monkeypatch.setattr("getpass.getpass", lambda **_more: new)
    call_command("changepassword", "alice", stdout=StringIO())
    assert sign_in(client, "alice", new).url == "/"


def test_a_changed_password_leads_home(client, alice):
    sign_in(client, "alice")
    new = "a much longer secret"
    form = {"oldpassword": PASSWORD, "password1": new, "password2": new}
    changed = client.post(reverse("account_change_password"), form)
    asked = client.get(changed.url)
    assert client.post(asked.url, {"login": "alice", "password": new}).url == reverse("home")


def test_removal_and_deactivation_end_access_while_signed_in(client, root, alice, team):
    sign_in(client, "alice")
    assert client.get("/teams/vision/").status_code == 200
    remove_member(actor=root, team=team, user=alice)
    assert client.get("/teams/vision/").status_code == 404
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert client.get("/").status_code == 302


def test_signing_out_ends_the_session(client, alice):
    sign_in(client, "alice")
    key = client.session.session_key
    client.post(reverse("account_logout"))
    client.cookies["sessionid"] = key
    assert client.get("/").status_code == 302


@pytest.mark.parametrize(
    "name",
    [
        "account_login",
        "account_signup",
        "account_reset_password",
        "account_reset_password_done",
        "account_reset_password_from_key_done",
        "account_inactive",
    ],
)
def test_pages_before_signing_in_are_ours(client, name):
    page = client.get(reverse(name))
    assert page.status_code == 200
    assert "Trainyard" in page.content.decode()


def test_bytes_that_are_no_text_are_refused_not_broken(client, alice):
    form = "application/x-www-form-urlencoded"
    answer = client.post(
        reverse("account_login"), b"login=%ED%A0%80&password=%FF", content_type=form
    )
    assert answer.status_code == 200
    assert client.get("/").status_code == 302


def test_nobody_adds_an_address_that_is_not_proven(client, alice):
    sign_in(client, "alice")
    for path in ("email/", "confirm-email/", "login/code/confirm/"):
        assert client.get(f"/accounts/{path}").status_code == 404


@pytest.mark.parametrize(
    "name",
    [
        "account_logout",
        "account_change_password",
        "account_reauthenticate",
        "account_set_password",
    ],
)
def test_pages_after_signing_in_are_ours_or_lead_to_ours(client, alice, name):
    sign_in(client, "alice")
    page = client.get(reverse(name), follow=True)
    assert page.status_code in (200, 404)
    ours = Path(__file__).parents[2] / "templates"
    origins = [t.origin.name for t in page.templates if t.origin and "widgets" not in t.name]
    assert all(origin.startswith(str(ours)) for origin in origins), origins


def test_there_is_one_first_administrator(db):
    create_first_administrator(username="admin", email="admin@example.org", password=PASSWORD)
    assert User.objects.get().is_superuser
    with pytest.raises(Conflict):
        create_first_administrator(username="two", email="two@example.org", password=PASSWORD)


@pytest.mark.parametrize("text", ["", " ", "\x00", "x" * 10_000, "' OR 1=1 --", "%s{0}"])
def test_odd_logins_are_refused_not_broken(client, alice, text):
    assert sign_in(client, text, text).status_code == 200
    assert client.get("/").status_code == 302
