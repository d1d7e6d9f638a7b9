"""Every page within its statements: one walk for who uses it most, as rows are few and many."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from accounts.models import DelegationScope, Role
from accounts.services import delegate
from portal.bench.faces.budgets import BUDGETS, NOT_PAGES
from portal.bench.faces.visits import noted
from scheduler.loop.cycle import Scheduler
from scheduler.models import SchedulerLease
from tests import factories, scenes
from tests.pages.matrix import ROWS
from tests.pages.test_matrix import address, people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.once]
PAGES = [row for row in ROWS if row.method == "GET" and row.route not in NOT_PAGES]
# More of them make a browser slow: a promise to its readers, whatever is in the tables.
MOST_ELEMENTS = 8000
# Whose page it is: the first of these who may open it.
WHO = ("alice", "operator", "lead", "root")


@contextmanager
def statements() -> Iterator[list[str]]:
    """What is asked of the database in the block."""
    seen: list[str] = []
    with connection.execute_wrapper(lambda *words: noted(seen, *words)):
        yield seen


class Elements(HTMLParser):
    """Counts what a browser would make of a page, pictures and their parts included."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.count = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count += 1


def test_elements_are_counted_and_text_is_not():
    page = "<main><p>1 &lt; 2 <br/>x</p><svg><use href='#a'/></svg><script>'<b>'</script></main>"
    assert Elements(page).count == 6


def test_every_page_has_a_budget():
    assert {row.route for row in PAGES} == set(BUDGETS)


@pytest.mark.parametrize(
    ("route", "who"),
    [
        ("requests:detail", "lead"),
        ("requests:detail", "root"),
        ("teams:detail", "lead"),
        ("home", "root"),
        ("bookings:list", "lead"),
        ("bookings:list", "root"),
    ],
)
def test_who_decides_and_who_leads_stay_within_the_budget(client, people, things, route, who):
    row = next(row for row in PAGES if row.route == route)
    client.force_login(people[who])
    with statements() as seen:
        page = client.get(address(row, things))
    assert page.status_code == 200
    assert len(seen) <= BUDGETS[route].statements


@pytest.mark.parametrize(
    "route", ["home", "jobs:list", "jobs:detail", "queue:list", "requests:list", "teams:list"]
)
def test_whoever_acts_for_others_costs_one_statement_more(
    client, root, people, things, team, other_team, route
):
    """For however many, and in however much: what they may is read along with who they are."""
    now, deputy = timezone.now(), people["alice"]
    other_lead = factories.member("other-lead", other_team, Role.LEAD, by=root)
    for giver, its in ((people["lead"], team), (other_lead, other_team)):
        for scope in DelegationScope.values:
            until = now + timedelta(days=1)
            delegate(
                actor=giver, deputy=deputy, scope=scope, team=its, starts_at=now, ends_at=until
            )
    client.force_login(deputy)
    assert other_team.name in client.get(reverse("teams:list")).content.decode()
    row = next(row for row in PAGES if row.route == route)
    with statements() as seen:
        assert client.get(address(row, things)).status_code == 200
    assert len(seen) <= BUDGETS[route].statements + 1


def test_pages_stay_within_their_budgets_however_many_rows(client, people, things, project, alice):
    over, grown = [], []
    asked: dict[str, int] = {}
    for turn in range(2):
        for row in PAGES:
            who = next((one for one in WHO if row.statuses[one] == 200), None)
            if who is None:
                continue
            client.force_login(people[who])
            with statements() as seen:
                page = client.get(address(row, things), row.data)
            budget = BUDGETS[row.route]
            kib = len(gzip.compress(page.content)) / 1024
            count = Elements(page.content.decode()).count
            is_small = kib <= budget.kib or row.route == "search"
            if len(seen) > budget.statements or not is_small or count > MOST_ELEMENTS:
                over.append((row.route, who, len(seen), round(kib, 1), count))
            if asked.setdefault(row.route, len(seen)) < len(seen):
                grown.append((row.route, who, asked[row.route], len(seen)))
        if turn == 0:
            for number in range(5):
                scenes.submit(alice, project, name=f"more-{number}")
    assert (over, grown) == ([], [])


@pytest.mark.parametrize(
    ("route", "asked"),
    [
        *((route, {}) for route in ("detail", "why", "options", "before")),
        ("change", {"time_limit": "9h"}),
        ("change", {"gpus_per_node": "1", "nodes": "1..2", "gpu_model": scenes.MODEL}),
    ],
)
def test_pages_of_a_job_that_waits_for_others_stay_within_theirs(
    client, root, alice, bob, project, route, asked
):
    """Each decides a cycle, or says who was started instead."""
    scenes.build_cluster(root, nodes=2)
    SchedulerLease.objects.update(expires_at=scenes.NOON)
    scenes.submit(bob, project, time_limit="2h", now=scenes.at(0))
    waits = scenes.submit(alice, project, nodes=2, gpus_per_node=2, now=scenes.at(1))
    scenes.submit(bob, project, now=scenes.at(2))
    # Only a cycle notes how those stood whom it starts, which "before" compares with the line now.
    assert Scheduler(holder="test").run_cycle(scenes.at(3)).started == 2
    client.force_login(alice)
    with statements() as seen:
        page = client.get(reverse(f"jobs:{route}", args=[waits.pk]), asked)
    assert page.status_code == 200
    assert len(seen) <= BUDGETS[f"jobs:{route}"].statements, seen
