"""Every page, operation and topic for every role, on own and on foreign things."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.services import SERVICE_SCOPES
from portal.api.auth import ANY_SCOPE
from portal.live import topics as live
from tests.pages.matrix import OPEN_ROUTES
from tests.rights import asking, write_classes, writes, writing
from tests.rights.classes import CLASSES
from tests.rights.scene import PEOPLE, Scene, build
from tests.rights.table import API, PAGES
from tests.rights.topics import TOPICS

# Every route seven times over, twice: a minute, and more beside other work.
pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.timeout(600)]
SIDES = ("own", "foreign")
# A service account belongs to no person, so these it does not see: it asked for nothing, and the
# jobs are not its own.
_NOT_FOR_SERVICES = {"requests/<int:pk>/", "bulk-cancels/<int:pk>/"}


@pytest.fixture
def scene(db: Any) -> Scene:
    return build()


def test_every_route_has_a_row_and_every_row_a_route():
    assert set(asking.pages()) == set(PAGES)
    assert {r for r, methods in asking.operations().items() if "get" in methods} == set(API)
    assert set(live._SHAPES) == set(TOPICS)
    assert {*PAGES.values(), *API.values()} <= set(CLASSES)


def test_who_gets_which_page(scene):
    found, wanted = {}, {}
    for route, args in asking.pages().items():
        for side, people in zip(SIDES, CLASSES[PAGES[route]], strict=True):
            service = "200" if route in OPEN_ROUTES else "302"
            wanted[route, side] = f"{people} {service}"
            found[route, side] = asking.page_answers(scene, route, args, getattr(scene, side))
    assert found == wanted


def test_who_gets_what_from_the_api(scene):
    found, wanted = {}, {}
    for route, methods in asking.operations().items():
        if "get" not in methods:
            continue
        for side, people in zip(SIDES, CLASSES[API[route]], strict=True):
            scope = methods["get"]
            has_scope = scope == ANY_SCOPE or scope in SERVICE_SCOPES
            service = people.split()[PEOPLE.index("member")] if has_scope else "403"
            service = "404" if route in _NOT_FOR_SERVICES else service
            wanted[route, side] = f"{people} {service}"
            found[route, side] = asking.api_answers(scene, route, getattr(scene, side))
    assert found == wanted


def test_who_may_change_what_over_the_api(scene):
    """Every operation that writes, with a body that would do, by everybody, on own and foreign."""
    there = {
        f"{method} {route}"
        for route, methods in asking.operations().items()
        for method in methods
        if method != "get"
    }
    assert there == set(writes.WRITES) == set(writing.SENT)
    words = writing.targets(scene)
    found = {}
    for operation in writes.WRITES:
        sides = SIDES if writing.has_sides(operation, words) else SIDES[:1] * 2
        seen = {
            side: asking.write_answers(scene, operation, words[side])
            for side in dict.fromkeys(sides)
        }
        found[operation] = tuple(seen[side] for side in sides)
    assert found == {one: write_classes.CLASSES[name] for one, name in writes.WRITES.items()}


def test_who_watches_what(scene):
    own, foreign = asking.topics(scene.own), asking.topics(scene.foreign)
    found = {
        kind: tuple(asking.topic_answers(scene, of[kind]) for of in (own, foreign)) for kind in own
    }
    assert found == TOPICS


def test_without_signing_in_there_is_nothing(scene):
    nobody = Client()
    for route, args in asking.pages().items():
        url = reverse(route, args=[scene.own.words[word] for word in args])
        assert nobody.get(url).status_code == (200 if route in OPEN_ROUTES else 302), route
    for route, methods in asking.operations().items():
        url = "/api/v1/" + re.sub(r"<(int|str|slug):\w+>", "1", route)
        for method in methods:
            expected = 200 if route == "schema/" else 401
            assert getattr(nobody, method)(url).status_code == expected, (method, route)


def test_a_token_of_a_program_changes_only_what_it_submitted_for(scene):
    """Whatever asks for another scope, or for a person, is refused before anything is read."""
    client, tried = scene.clients["service"], 0
    for route, methods in asking.operations().items():
        for method, scope in methods.items():
            if scope in (*SERVICE_SCOPES, ANY_SCOPE):
                continue
            tried += 1
            url = "/api/v1/" + re.sub(r"<(int|str|slug):\w+>", "1", route)
            answer = getattr(client, method)(
                url, {}, content_type="application/json", **scene.headers
            )
            assert answer.status_code == 403, (method, route)
            assert answer.json()["code"] in ("scope_missing", "sign_in_needed"), (method, route)
    assert tried > 10
