"""Middleware run together answers as the same middleware listed one by one."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.test import AsyncClient, Client, override_settings

pytestmark = pytest.mark.django_db(transaction=True)

ONE_BY_ONE = [
    *settings.MIDDLEWARE_TOGETHER,
    *(path for path in settings.MIDDLEWARE if path != "portal.middleware.together"),
]
# Differ from request to request.
VOLATILE = ("x-request-id", "expires", "date", "content-length")


def _told(answer):
    headers = {k.lower(): v for k, v in answer.headers.items() if k.lower() not in VOLATILE}
    headers["content-security-policy"] = headers.get("content-security-policy", "")[:60]
    return answer.status_code, headers, sorted(answer.cookies)


REQUESTS: list[tuple[str, str, dict[str, str], dict[str, str]]] = [
    ("get", "/", {}, {}),
    ("get", "/jobs", {}, {}),  # common: the missing slash
    ("get", "/accounts/login/", {}, {}),  # sets the CSRF cookie
    ("get", "/jobs/", {}, {"HTTP_HOST": "evil.example"}),  # a part refuses
    ("post", "/jobs/1/cancel/", {}, {}),  # no CSRF token
    ("post", "/api/v1/jobs/", {}, {}),
    ("get", "/no/such/page", {}, {}),
]


@pytest.mark.parametrize(("verb", "path", "data", "more"), REQUESTS)
@pytest.mark.parametrize("signed_in", [False, True])
def test_the_answers_are_the_same(alice, verb, path, data, more, signed_in):
    told = []
    for chain in (ONE_BY_ONE, settings.MIDDLEWARE):
        with override_settings(MIDDLEWARE=chain):
            client = Client(enforce_csrf_checks=True)
            if signed_in:
                client.force_login(alice)
            told.append(_told(getattr(client, verb)(path, data, **more)))
    assert told[0] == told[1]


@pytest.mark.parametrize(("verb", "path"), [(r[0], r[1]) for r in REQUESTS if not r[3]])
def test_they_are_the_same_in_an_event_loop(alice, verb, path):
    told = []
    for chain in (ONE_BY_ONE, settings.MIDDLEWARE):
        with override_settings(MIDDLEWARE=chain):
            client = AsyncClient(enforce_csrf_checks=True)
            client.force_login(alice)
            told.append(_told(async_to_sync(getattr(client, verb))(path)))
    assert told[0] == told[1]
