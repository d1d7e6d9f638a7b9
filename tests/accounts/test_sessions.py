"""A session is read with its person, and only its signed text says who that is."""

from __future__ import annotations

import pytest
from django.contrib.sessions.backends.db import SessionStore as DjangoStore
from django.contrib.sessions.models import Session
from django.urls import reverse

from portal.live.session import user_of_session

pytestmark = pytest.mark.django_db
BELL = "notifications:list"


def text_of(client) -> Session:
    return Session.objects.get(session_key=client.session.session_key)


def test_one_statement_finds_session_person_and_rights(client, alice, django_assert_num_queries):
    client.force_login(alice)
    key = client.session.session_key
    with django_assert_num_queries(1):
        person = user_of_session(key)
        assert person == alice
        assert not person.is_superuser


def test_another_number_before_the_text_makes_nobody_else(client, alice, root):
    client.force_login(alice)
    row = text_of(client)
    _, mark, text = row.session_data.partition("|")
    row.session_data = f"{root.pk:019d}{mark}{text}"
    row.save()
    assert user_of_session(row.session_key) == alice
    assert not client.get(reverse(BELL)).wsgi_request.user.is_superuser


def test_sessions_written_before_are_read(client, alice):
    client.force_login(alice)
    row = text_of(client)
    row.session_data = row.session_data.partition("|")[2]
    row.save()
    assert DjangoStore(row.session_key).get("_auth_user_id") == str(alice.pk)
    assert user_of_session(row.session_key) == alice
    assert client.get(reverse(BELL)).status_code == 200


def test_a_session_ends_with_the_password_the_account_and_its_time(client, alice):
    client.force_login(alice)
    row = text_of(client)
    alice.is_active = False
    alice.save()
    assert user_of_session(row.session_key) is None
    alice.is_active = True
    alice.save()
    assert user_of_session(row.session_key) == alice
    Session.objects.update(expire_date="2020-01-01T00:00:00Z")
    assert user_of_session(row.session_key) is None
    Session.objects.update(expire_date=row.expire_date)
    alice.set_password("another long one")
    alice.save()
    assert user_of_session(row.session_key) is None
    assert not Session.objects.filter(session_key=row.session_key).exists()
