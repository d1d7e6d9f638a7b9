"""How long browsers stay signed in: by the clock, by what somebody does, and by what roles do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.adapter import BEGAN, GRACE, SessionStore
from accounts.services import change_role, give_role
from accounts.services.ending.access import deactivate_person, forget_sign_ins
from portal.live.session import keep_signed_in, user_of_session
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db
HOURS = timedelta(hours=1)
PAGE = {"HTTP_SEC_FETCH_MODE": "navigate"}
PART = {"HTTP_SEC_FETCH_MODE": "cors", "HTTP_HX_REQUEST": "true"}
OLD_PAGE = {"HTTP_ACCEPT": "text/html,*/*"}
OLD_PART = {"HTTP_ACCEPT": "*/*", "HTTP_HX_REQUEST": "true"}


def row_of(client) -> Session:
    return Session.objects.get(session_key=client.cookies[settings.SESSION_COOKIE_NAME].value)


def left(client) -> timedelta:
    return row_of(client).expire_date - timezone.now()


def aged(client, by: timedelta) -> None:
    """As if the session had been begun, and last used, so much earlier."""
    session = client.session
    session[BEGAN] -= int(by.total_seconds())
    session.save()
    row = row_of(client)
    row.expire_date = timezone.now() + timedelta(seconds=settings.SIGNED_IN_IDLE_S) - by
    row.save()


def test_it_rests_two_hours_and_lasts_twelve(client, alice):
    assert (settings.SIGNED_IN_IDLE_S, settings.SESSION_COOKIE_AGE) == (2 * 3600, 12 * 3600)
    client.post(reverse("account_login"), {"login": "alice", "password": PASSWORD})
    assert timedelta(minutes=119) < left(client) <= 2 * HOURS
    aged(client, timedelta(minutes=119))
    assert client.get("/jobs/", **PAGE).status_code == 200
    assert timedelta(minutes=119) < left(client)
    aged(client, 2 * HOURS)
    assert client.get("/jobs/", **PAGE).status_code == 302
    assert user_of_session(client.cookies[settings.SESSION_COOKIE_NAME].value) is None


def test_what_is_over_is_forgotten_and_counted_as_no_session(client, alice, root, monkeypatch):
    clients = [Client() for _ in range(4)]
    for one in clients:
        one.force_login(alice)
    keys = [one.session.session_key for one in clients]
    Session.objects.filter(pk__in=keys[:3]).update(expire_date=timezone.now() - HOURS)
    monkeypatch.setattr("accounts.adapter._FORGOTTEN", 1)
    assert forget_sign_ins(now=timezone.now() - 2 * HOURS) == 0
    Session.objects.filter(pk=keys[2]).update(expire_date=timezone.now())
    assert forget_sign_ins(now=timezone.now() - HOURS / 2) == 2
    assert set(Session.objects.values_list("pk", flat=True)) == {keys[2], keys[3]}
    ended = deactivate_person(actor=root, user=alice, reason="left")
    assert ended.sessions == 1 and not Session.objects.exists()


def test_after_twelve_hours_nothing_helps(client, alice):
    client.force_login(alice)
    session = client.session
    session[BEGAN] -= 11 * 3600 + 1800
    session.save()
    for _ in range(2):
        assert client.get("/jobs/", **PAGE).status_code == 200
        assert left(client) <= HOURS / 2
    session = client.session
    session[BEGAN] -= 1800
    session.save()
    assert client.get("/jobs/", **PAGE).status_code == 302


@pytest.mark.parametrize(
    ("method", "path", "headers", "is_somebody"),
    [
        ("get", "/jobs/", PAGE, True),
        ("get", "/jobs/", OLD_PAGE, True),
        ("post", "/settings/tokens/", PART, True),
        ("get", "/jobs/", PART, False),
        ("get", "/jobs/", OLD_PART, False),
        ("get", "/api/v1/jobs/", {"HTTP_ACCEPT": "*/*"}, False),
        ("get", "/api/v1/jobs/", {"HTTP_SEC_FETCH_MODE": "cors"}, False),
    ],
)
def test_what_pages_ask_by_themselves_is_nobody(client, alice, method, path, headers, is_somebody):
    client.force_login(alice)
    aged(client, HOURS)
    answer = getattr(client, method)(path, **headers)
    assert answer.status_code in (200, 302), answer.status_code
    assert (left(client) > timedelta(minutes=61)) is is_somebody


def test_an_open_socket_keeps_nothing_alive(client, alice):
    client.force_login(alice)
    aged(client, HOURS)
    for _ in range(3):
        assert user_of_session(client.session.session_key) == alice
    assert left(client) < timedelta(minutes=61)


def test_work_in_an_interactive_session_does(client, alice):
    client.force_login(alice)
    aged(client, HOURS)
    keep_signed_in(client.session.session_key, now=timezone.now())
    assert left(client) > timedelta(minutes=61)
    client.logout()
    keep_signed_in("0" * 32, now=timezone.now())


def test_use_is_written_down_now_and_then_alone(client, alice, django_assert_num_queries):
    client.force_login(alice)
    client.get("/jobs/", **PAGE)
    before = row_of(client).expire_date
    client.get("/jobs/", **PAGE)
    assert row_of(client).expire_date == before
    aged(client, timedelta(minutes=6))
    client.get("/jobs/", **PAGE)
    assert row_of(client).expire_date > before


def test_signing_in_again_begins_anew(client, alice):
    client.force_login(alice)
    aged(client, HOURS)
    began = client.session[BEGAN]
    client.force_login(alice)
    assert client.session[BEGAN] >= began + 3600


def test_a_session_of_before_goes_on_until_its_old_end(client, alice):
    client.force_login(alice)
    session = client.session
    del session[BEGAN]
    row = row_of(client)
    row.session_data = session.encode(dict(session.items()))
    row.expire_date = timezone.now() + 5 * HOURS
    row.save()
    assert client.get("/jobs/", **PAGE).status_code == 200
    assert left(client) > timedelta(hours=4)


class TestRoles:
    def test_a_new_role_brings_a_new_key(self, client, root, alice):
        client.force_login(alice)
        old = client.session.session_key
        began = client.session[BEGAN]
        give_role(actor=root, user=alice, role="auditor")
        assert client.get("/jobs/", **PART).status_code == 200
        new = client.cookies[settings.SESSION_COOKIE_NAME].value
        assert new != old
        assert user_of_session(new) == alice
        assert client.session[BEGAN] == began
        # What was under way with the old key is served, for some seconds and no longer.
        assert user_of_session(old) == alice
        assert Session.objects.get(session_key=old).expire_date <= timezone.now() + GRACE
        assert client.get("/jobs/", **PAGE).status_code == 200
        assert client.cookies[settings.SESSION_COOKIE_NAME].value == new

    def test_the_old_key_gets_no_second_new_one_and_no_more_time(self, client, root, alice):
        client.force_login(alice)
        old = client.session.session_key
        give_role(actor=root, user=alice, role="auditor")
        client.get("/jobs/", **PAGE)
        count = Session.objects.count()
        client.cookies[settings.SESSION_COOKIE_NAME] = old
        assert client.get("/jobs/", **PAGE).status_code == 200
        assert Session.objects.count() == count
        assert Session.objects.get(session_key=old).expire_date <= timezone.now() + GRACE
        Session.objects.filter(session_key=old).update(expire_date=timezone.now())
        client.cookies[settings.SESSION_COOKIE_NAME] = old
        assert client.get("/jobs/", **PAGE).status_code == 302

    def test_the_old_key_lives_no_longer_for_what_is_saved_with_it(self, client, root, alice):
        client.force_login(alice)
        old = client.session.session_key
        under_way = SessionStore(old)
        under_way["begun"] = "before the new role"
        give_role(actor=root, user=alice, role="auditor")
        under_way.save()
        client.get("/jobs/", **PAGE)
        assert client.cookies[settings.SESSION_COOKIE_NAME].value != old
        for one in (under_way, SessionStore(old)):
            one["more"] = "with the old key"
            one.save()
            row = Session.objects.get(session_key=old)
            assert row.expire_date <= timezone.now() + GRACE
            assert SessionStore(old)["more"] == "with the old key"
        under_way.cycle_key()
        assert Session.objects.get(
            session_key=under_way.session_key
        ).expire_date > timezone.now() + timedelta(minutes=119)

    def test_what_was_read_before_the_new_key_does_not_let_the_old_one_last(
        self, client, root, alice
    ):
        client.force_login(alice)
        old = client.session.session_key
        long_ago = timezone.now() + timedelta(minutes=5)
        Session.objects.filter(session_key=old).update(expire_date=long_ago)
        under_way = SessionStore(old)
        assert under_way[BEGAN]
        give_role(actor=root, user=alice, role="auditor")
        client.get("/jobs/", **PAGE)
        under_way.note_activity(timezone.now())
        assert Session.objects.get(session_key=old).expire_date <= timezone.now() + GRACE

    def test_so_does_another_role_in_a_team_and_nobody_else_is_touched(
        self, client, lead, alice, bob, team
    ):
        client.force_login(alice)
        other = Client()
        other.force_login(bob)
        keys = [one.session.session_key for one in (client, other)]
        change_role(actor=lead, team=team, user=alice, role="lead")
        for one in (client, other):
            one.get("/jobs/", **PAGE)
        now = [one.cookies[settings.SESSION_COOKIE_NAME].value for one in (client, other)]
        assert (now[0] != keys[0], now[1] == keys[1]) == (True, True)

    def test_a_socket_alone_brings_no_new_key(self, client, root, alice):
        client.force_login(alice)
        key = client.session.session_key
        give_role(actor=root, user=alice, role="auditor")
        assert user_of_session(key) == alice
        assert Session.objects.count() == 1


class TestSignedOut:
    """The sign-in page leads back to where one was; parts of pages never hold it."""

    def test_a_page_comes_back(self, client, alice):
        answer = client.get("/jobs/?state=running")
        assert answer.url == "/accounts/login/?next=/jobs/%3Fstate%3Drunning"
        assert "back on the page" in client.get(answer.url).content.decode()
        done = client.post(answer.url, {"login": "alice", "password": PASSWORD})
        assert done.url == "/jobs/?state=running"

    @pytest.mark.parametrize(
        ("referer", "back"),
        [
            ("http://testserver/jobs/7/?tab=log", "/jobs/7/%3Ftab%3Dlog"),
            ("https://evil.example/jobs/", "/"),
            ("", "/"),
        ],
    )
    def test_a_form_leads_to_the_page_it_stood_on(self, client, referer, back):
        headers = {"HTTP_REFERER": referer} if referer else {}
        answer = client.post("/jobs/7/cancel/", **headers)
        assert answer.status_code == 302
        assert answer.url == f"/accounts/login/?next={back}"

    def test_a_part_that_was_sent_takes_the_page_along(self, client):
        answer = client.post(
            "/jobs/new/?part=summary",
            HTTP_HX_REQUEST="true",
            HTTP_HX_CURRENT_URL="http://testserver/jobs/new/?template=a",
        )
        assert answer.status_code == 200
        assert answer.content == b""
        assert answer["HX-Redirect"] == "/accounts/login/?next=/jobs/new/%3Ftemplate%3Da"

    def test_a_part_that_was_asked_for_is_sent_to_the_sign_in_page(self, client):
        answer = client.get("/jobs/?part=rows", HTTP_HX_REQUEST="true")
        assert answer.status_code == 302
        assert answer.url.startswith("/accounts/login/")
