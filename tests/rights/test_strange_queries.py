"""No operation of the API is silent about a value that is nothing to it, and what is another team's
is nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.rights import asking, strange
from tests.rights.classes import CLASSES
from tests.rights.scene import Scene, build
from tests.rights.table import API

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]
# Texts that are looked for, and where a list goes on: any is one.
FREE = frozenset("q text actor action object after".split())
# How many, and where to begin: these name nothing that is somebody's.
COUNTS = frozenset("limit count tail from_line offset wait hours rank attempt".split())
# What stands in no answer but the list itself: a part that is empty says that nothing is so.
LISTS = ("items", "rows")
ODD_WORDS = ("%00", "%ff%fe", "x" * 300, "..%2f..%2fetc", "9" * 30)
ODD_NUMBERS = ("0", "9" * 30, "-1", "%ef%bc%91", "1e3")


@pytest.fixture
def scene(db: Any) -> Scene:
    return build()


def visits(scene: Scene) -> Iterator[tuple[str, str, strange.Ask, str, frozenset[str]]]:
    """Of each GET: who asks, how, the address on their own side, and what it takes."""
    for (route, method), names in asking.queries().items():
        if method != "get" or route == "schema/":
            continue
        who = strange.who_opens(CLASSES[API[route]][0])
        if who is not None:
            address = asking.api_address(route, scene.own)
            yield route, who, scene.clients[who].get, address, names


def is_told(answer: Any, name: str) -> bool:
    """Whether an answer says that the value is nothing: by the field, or by finding nothing."""
    if answer.status_code in (400, 422):
        return any(one["field"] == name and one["message"] for one in answer.json()["errors"])
    if answer.status_code == 200 and answer["Content-Type"] == "application/json":
        return any(answer.json().get(name) == [] for name in LISTS)
    return bool(answer.status_code == 404)


@pytest.mark.once
def test_huge_long_and_broken_values_are_told(scene):
    wrong, asked = [], 0
    for route, _, ask, address, names in visits(scene):
        for name in names:
            for kind, value in strange.ODD.items():
                if kind != "bytes" and name in FREE:
                    continue
                asked += 1
                answer = ask(f"{address}?{name}={quote(value)}")
                if not is_told(answer, name):
                    wrong.append(f"{route}?{name}={kind}:{answer.status_code}")
    assert " ".join(wrong) == ""
    assert asked > 300


@pytest.mark.once
def test_unknown_and_repeated_parameters_are_told_by_every_operation(scene):
    wrong = []
    for (route, method), names in asking.queries().items():
        address = asking.api_address(route, scene.own) if route in API else _somewhere(route)
        ask = getattr(scene.clients["admin"], method)
        for name, query in [("zz", "zz=1"), *((name, f"{name}=1&{name}=1") for name in names)]:
            answer = ask(f"{address}?{query}")
            if answer.status_code != 400 or not is_told(answer, name):
                wrong.append(f"{method} {route}?{query}:{answer.status_code}")
    assert " ".join(wrong) == ""


@pytest.mark.long
@pytest.mark.once
def test_what_is_another_teams_is_as_if_it_were_not_there(scene):
    wrong, asked = [], 0
    for route, who, ask, address, names in visits(scene):
        if who not in strange.NARROW:
            continue
        for name in names - COUNTS:
            for foreign, missing in strange.foreign_words(scene.foreign):
                if name in FREE and foreign.isdigit():
                    continue  # figures stand in one's own things as well
                asked += 1
                told = []
                for value in (foreign, missing):
                    answer = ask(address, {name: value})
                    text = strange.shape_of(strange.text_of(answer))
                    told.append((answer.status_code, strange.without(text, value)))
                if told[0] != told[1]:
                    wrong.append(f"{route}?{name}={foreign}")
    assert " ".join(wrong) == ""
    assert asked > 300


def test_odd_words_in_addresses_are_found_nowhere(scene):
    """Each part of each address by itself, of every method: never a failure, never an answer."""
    wrong = []
    for route, methods in asking.operations().items():
        for part in re.findall(r"<[^>]+>", route):
            for word in ODD_NUMBERS if part.startswith("<int:") else ODD_WORDS:
                address = _somewhere(route.replace(part, word))
                for method in methods:
                    ask = getattr(scene.clients["admin"], method)
                    answer = ask(address, content_type="application/json")
                    if not 400 <= answer.status_code < 500:
                        wrong.append(f"{method} {address}:{answer.status_code}")
    assert " ".join(wrong) == ""


def _somewhere(route: str) -> str:
    """An address of that shape; nothing needs to be there."""
    return "/api/v1/" + re.sub(r"<(?:int|str|slug):\w+>", "1", route)
