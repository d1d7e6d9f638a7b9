"""What answers of the API, of errors and of machines' addresses say to browsers of themselves."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError
from django.test import Client

from tests.rights import asking
from tests.rights.scene import build

pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.timeout(300)]


_NONE = ("frame-ancestors", "object-src", "base-uri")


def missing(answer) -> list[str]:
    """Which of the headers of every answer it lacks."""
    policy = answer.get("Content-Security-Policy", "")
    told = {
        "policy": bool(policy) and "unsafe" not in policy,
        "no frames, objects, base": "sandbox" in policy
        or all(f"{word} 'none'" in policy for word in _NONE),
        "nosniff": answer.get("X-Content-Type-Options") == "nosniff",
        "referrer": answer.get("Referrer-Policy") == "same-origin",
        "opener": answer.get("Cross-Origin-Opener-Policy") == "same-origin",
    }
    return [what for what, holds in told.items() if not holds]


def _failures(admin: Client) -> list[Any]:
    """What is answered where a view breaks: 500, and 503 without a database; pages and the API."""
    found = []
    kept, admin.raise_request_exception = admin.raise_request_exception, False
    for error, status in ((KeyError("x"), 500), (OperationalError("gone"), 503)):
        with (
            mock.patch("portal.pages.help.render", side_effect=error),
            mock.patch("portal.api.v1.people.tokens_of", side_effect=error),
        ):
            answers = [admin.get("/help/"), admin.get("/api/v1/tokens/")]
        assert [answer.status_code for answer in answers] == [status, status]
        for answer in answers:
            # Neither what broke nor with what it was built.
            said = f"{answer.content!r} {dict(answer.headers)}".lower()
            assert not re.search(r"traceback|keyerror|operational|django|python|uvicorn", said)
        found += answers
    admin.raise_request_exception = kept
    return found


def test_every_answer_of_the_api_and_every_error():
    scene = build()
    admin, nobody = scene.clients["admin"], Client()
    wrong = []
    for route, methods in asking.operations().items():
        if "get" in methods:
            url, verb, sent = asking.api_address(route, scene.own), "get", b""
        else:
            url = "/api/v1/" + re.sub(r"<\w+:\w+>", "1", route)
            verb, sent = next(iter(methods)), b"no"
        answers = [nobody.get(url), admin.trace(url), admin.generic(verb.upper(), url, sent)]
        wrong += [(route, answer.status_code, missing(answer)) for answer in answers]
    for url in ("/no-such-page/", "/api/v1/no-such/", "/healthz", "/metrics", "/accounts/login/"):
        wrong += [(url, answer.status_code, missing(answer)) for answer in (nobody.get(url),)]
    wrong += [("failed", answer.status_code, missing(answer)) for answer in _failures(admin)]
    strict = Client(enforce_csrf_checks=True)
    refused = [strict.post("/accounts/login/"), admin.post("/jobs/"), nobody.get("/jobs/")]
    refused.append(nobody.get("/jobs/", HTTP_HOST="evil.example"))
    assert [answer.status_code for answer in refused] == [403, 405, 302, 400]
    wrong += [("refused", answer.status_code, missing(answer)) for answer in refused]
    assert [one for one in wrong if one[2]] == []
