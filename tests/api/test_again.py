"""Who signed in some time ago shows again who they are before tokens, prices and months change."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.cache import cache
from django.test import Client

from accounts.adapter import BEGAN
from accounts.models import ApiToken
from tests.api.conftest import problem_of
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db

GOOD = {"name": "laptop", "scopes": ["jobs:read"], "expires_in_days": "30"}
AGAIN = "/accounts/reauthenticate/"


@pytest.fixture(autouse=True)
def fresh_limits(db):
    cache.clear()


@pytest.fixture
def of_before(client, alice) -> Client:
    """Her browser: she signed in a quarter of an hour and a second ago."""
    client.force_login(alice)
    _signed_in_before(client)
    return client


def _signed_in_before(client: Client) -> None:
    session = client.session
    session[BEGAN] -= 901
    session.save()


def test_a_token_is_made_after_the_password_and_as_it_was_sent(of_before, alice):
    asked = of_before.post("/settings/tokens/", GOOD)
    assert (asked.status_code, urlsplit(asked.url).path) == (302, AGAIN)
    assert not ApiToken.objects.exists()
    page = of_before.get(asked.url)
    assert b"Type your password again" in page.content and b'type="password"' in page.content
    (there,) = parse_qs(urlsplit(asked.url).query)["next"]
    wrong = of_before.post(AGAIN, {"password": "wrong", "next": there})
    assert wrong.status_code == 200 and not ApiToken.objects.exists()
    done = of_before.post(AGAIN, {"password": PASSWORD, "next": there})
    assert re.search(rb"ty_[0-9a-f]{8}_[\w-]{43}", done.content)
    assert "no-store" in done["Cache-Control"]
    assert ApiToken.objects.get().name == "laptop"
    # For a quarter of an hour nobody asks again, and what was sent is not done twice.
    assert of_before.post("/settings/tokens/", GOOD | {"name": "ci"}).status_code == 200
    assert ApiToken.objects.count() == 2


def test_a_form_that_stands_where_the_password_was_asked_goes_to_its_own_page(of_before):
    asked = of_before.post("/settings/tokens/", GOOD)
    (there,) = parse_qs(urlsplit(asked.url).query)["next"]
    done = of_before.post(AGAIN, {"password": PASSWORD, "next": there}).content.decode()
    (form,) = re.findall(r"<form[^>]*>(?=(?:(?!</form>).)*name=\"scopes\")", done, re.DOTALL)
    assert 'action="/settings/tokens/"' in form


def test_what_waits_for_the_password_holds_nothing_that_opens_a_session(of_before):
    of_before.post("/settings/tokens/", GOOD, HTTP_AUTHORIZATION="Bearer ty_secret")
    kept = json.dumps(dict(of_before.session))
    assert "laptop" in kept
    assert of_before.session.session_key not in kept and "ty_secret" not in kept


def test_who_has_just_signed_in_is_not_asked_nor_who_only_looks(client, of_before, alice):
    assert of_before.get("/settings/tokens/").status_code == 200
    client.force_login(alice)
    assert client.post("/settings/tokens/", GOOD).status_code == 200
    assert ApiToken.objects.count() == 1


def test_people_without_a_password_and_yards_that_want_it_so_are_not_asked(
    of_before, alice, settings
):
    settings.PASSWORD_AGAIN_S = 0
    assert of_before.post("/settings/tokens/", GOOD).status_code == 200
    settings.PASSWORD_AGAIN_S = 900
    alice.set_unusable_password()
    alice.save()
    of_before.force_login(alice)
    _signed_in_before(of_before)
    assert of_before.post("/settings/tokens/", GOOD | {"name": "b"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/finance/prices/",
        "/welcome/",
        "/finance/prices/1/approve/",
        "/finance/periods/2026-10/close/",
        "/finance/periods/2026-10/reopen/",
        "/teams/vision/services/1/token/",
    ],
)
def test_prices_months_and_tokens_of_programs_ask_too(client, root, team, path):
    client.force_login(root)
    _signed_in_before(client)
    asked = client.post(path, {"x": "1"})
    assert (asked.status_code, urlsplit(asked.url).path) == (302, AGAIN)


def test_over_rest_a_session_is_told_where_and_a_token_is_not_asked(of_before, program, alice):
    document = {"name": "t", "scopes": ["jobs:read"], "expires_in_days": 1}
    told = of_before.post("/api/v1/tokens/", document, content_type="application/json")
    assert AGAIN in problem_of(told, 403, "password_needed")["detail"]
    assert of_before.get("/api/v1/tokens/").status_code == 200
    of_before.post(AGAIN, {"password": PASSWORD})
    made = of_before.post("/api/v1/tokens/", document, content_type="application/json")
    assert made.status_code == 201
    assert program(alice).get("/jobs/").status_code == 200
