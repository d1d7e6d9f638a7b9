"""No page is silent about a value that is nothing to it, and what is another team's is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.urls import reverse

from tests.pages.matrix import OPEN_ROUTES, ROWS
from tests.pages.rows import Row
from tests.rights import strange
from tests.rights.classes import CLASSES
from tests.rights.scene import Scene, build
from tests.rights.table import PAGES

# Each parameter of each page, several times over.
pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.long, pytest.mark.timeout(900)]
# Figures may be a name: a list without any such row says that none of so many match.
NAMES = ("jobs:list?pool=huge", "jobs:list?project=huge")


@pytest.fixture
def scene(db: Any) -> Scene:
    return build()


def visits(scene: Scene) -> Iterator[tuple[Row, str, strange.Ask, str, list[str]]]:
    """Of each page: who opens it, how, its address on their own side, and what it knows."""
    for row in ROWS:
        if row.method != "GET" or row.route in OPEN_ROUTES:
            continue
        who = strange.who_opens(CLASSES[PAGES[row.route]][0])
        if who is None:
            continue
        ask = scene.clients[who].get
        address = reverse(row.route, args=[scene.own.words[word] for word in row.args])
        if "<main" in strange.text_of(ask(address, row.data)):
            yield row, who, ask, address, strange.known_by(ask, address, row.data)


def _is_same(
    ask: strange.Ask, address: str, query: dict[str, Any], name: str, foreign: str, missing: str
) -> bool:
    """Whether a page answers both alike, and answers."""
    told = []
    for value in (foreign, missing):
        status, text, notices = strange.told_of(ask, address, {**query, name: value})
        told.append((status, strange.without(text, value), notices))
    return told[0] == told[1] and told[0][0] == 200


def test_what_is_another_teams_is_as_if_it_were_not_there(scene):
    wrong, asked = [], 0
    for row, who, ask, address, known in visits(scene):
        if who not in strange.NARROW:
            continue
        for name in known:
            for foreign, missing in strange.foreign_words(scene.foreign):
                asked += 1
                # A page that was drawn as a second passed is asked once more.
                if not any(_is_same(ask, address, row.data, name, foreign, missing) for _ in "ab"):
                    wrong.append(f"{row.route}?{name}={foreign}")
    assert " ".join(wrong) == ""
    assert asked > 300


def test_huge_long_and_broken_values_are_said(scene):
    wrong, asked = [], 0
    for row, _, ask, address, known in visits(scene):
        usual = strange.told_of(ask, address, row.data)[2]
        for name in known:
            for kind, value in strange.ODD.items():
                asked += 1
                # Bytes that are no text go as they are.
                query = f"{address}?{name}={quote(value)}"
                query += "".join(f"&{key}={quote(one)}" for key, one in row.data.items())
                status, _, notices = strange.told_of(ask, query, None)
                is_said = bool(notices - usual) or f"{row.route}?{name}={kind}" in NAMES
                if status != 200 or not is_said:
                    wrong.append(f"{row.route}?{name}={kind}:{status}")
    assert " ".join(wrong) == ""
    assert asked > 300


def test_a_value_that_is_given_twice_is_said(scene):
    wrong = []
    for row, _, ask, address, known in visits(scene):
        usual = strange.told_of(ask, address, row.data)[2]
        for name in known:
            status, _, notices = strange.told_of(ask, address, {**row.data, name: ["1", "1"]})
            if status != 200 or not notices - usual:
                wrong.append(f"{row.route}?{name}:{status}")
    assert " ".join(wrong) == ""
