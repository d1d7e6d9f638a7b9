"""Every report says of every parameter when its value is foreign, unknown or malformed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from accounts.selectors import get_visible_team
from accounts.services import create_project
from scheduler.selectors.books.catalogue import REPORTS
from scheduler.selectors.books.frame import NARROWS, Sheet
from tests.pages.silent import NONSENSE
from tests.pages.test_matrix import people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
NAMES = ("period", *NARROWS, "by", "across", "figure", "after", "format", "of")
# This one wants to know of what.
BASE = {"segments": {"team": "vision", "period": f"{timezone.now():%Y-%m}"}}
UNKNOWN = {"team": "nowhere", "project": "nowhere/nothing", "rate": "987654", "attempt": "987654"}

NUMBERS = ("rate", "attempt", "after")


def odd_values(name: str, foreign: dict[str, str]) -> Iterator[str]:
    yield NONSENSE
    yield UNKNOWN.get(name, "zz-unknown")
    if name in NUMBERS:
        yield "9" * 25
    if name in foreign:
        yield foreign[name]


# Odd values trouble PostgreSQL more; who may do more asks there alone.
@pytest.mark.parametrize("who", ["alice", pytest.param("root", marks=pytest.mark.postgres)])
def test_no_report_takes_an_odd_value_without_a_word(client, people, things, who):
    root = people["root"]
    apart = get_visible_team(root, "apart")
    create_project(actor=root, team=apart, name="Inner")
    foreign = {} if who == "root" else {"team": "apart", "project": "apart/inner"}
    client.force_login(people[who])
    silent = []
    for slug in REPORTS:
        address = reverse("finance:report", args=[slug])
        if client.get(address).status_code != 200:
            continue
        for name in NAMES:
            for value in odd_values(name, foreign):
                page = client.get(address, {**BASE.get(slug, {}), name: value})
                told: Any = page.context or {"problems": (), "sheet": Sheet(iter, {}, ())}
                told = [*told["problems"], *told["sheet"].remarks]
                if page.status_code != 200 or not any(name in one for one in told):
                    silent.append(f"{slug}?{name}={value}")
    assert silent == []
