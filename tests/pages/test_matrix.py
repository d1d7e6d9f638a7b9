"""Every page for every persona; every unsafe method; no form without its token."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, reverse
from django.utils import timezone

from accounts.models import Project, User
from accounts.services import (
    create_team,
    delegate,
    give_role,
    invite,
    issue_service_token,
    issue_token,
    make_service_account,
)
from accounts.services.identities.rules import add_group_rule
from portal.pages import urls
from scheduler.models import Pool, ReportSchedule
from scheduler.services.books import propose_adjustment
from scheduler.services.composing.drafts import save_draft
from scheduler.services.inbox import announce
from scheduler.services.mailing import create_schedule
from scheduler.services.saved import save_view
from scheduler.services.secrets import set_secret
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.simulating.scenarios import ask_scenario
from tests import requesting
from tests.accounts.pricing import desk_of
from tests.composing import make_template
from tests.factories import person
from tests.pages.billed import billed
from tests.pages.matrix import OPEN_ROUTES, ROWS
from tests.pages.operating import hooked
from tests.pages.purchases import costs_of
from tests.pages.rows import PERSONAS, Row
from tests.pages.silent import silent_pages
from tests.pages.telling import channel_of, moving_of
from tests.pages.yard import book_soon, build_yard
from tests.recurring import schedule_of
from tests.scenes import Cluster, submit
from tests.seconding import waiting_cancel

pytestmark = pytest.mark.django_db

# Who may do everything runs every statement on both databases.
ASKING = ["root", *(pytest.param(one, marks=pytest.mark.once) for one in PERSONAS if one != "root")]
# Pages that root may read.
READ = [
    row
    for row in ROWS
    if row.method == "GET" and row.statuses["root"] == 200 and row.route not in OPEN_ROUTES
]
# A card by its index, and an attempt.
_FIRST = {"index": 0, "attempt": 1}


def routes(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    """The names of our own pages; allauth tests its views itself."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            space = f"{pattern.namespace}:" if pattern.namespace else ""
            yield from routes(pattern.url_patterns, prefix + space)
        elif isinstance(pattern, URLPattern) and not str(pattern.name).startswith("account_"):
            yield prefix + str(pattern.name)


@pytest.fixture
def people(alice, bob, lead, finance, operator, carol, root):
    return dict(zip(PERSONAS, (alice, bob, lead, finance, operator, carol, root), strict=True))


def asked_for(alice, lead, root, project, pool) -> dict[str, int]:
    """A request that waits for a lead, a draft, and one that was granted; all hers."""
    now, team = timezone.now(), project.team
    granted = requesting.ask(alice, team, pool=pool, now=now)
    granted = requesting.decide(root, requesting.decide(lead, granted, now=now), now=now)
    return {
        "asked": requesting.ask(alice, project, now=now).pk,
        "draft": requesting.ask(alice, team, is_draft=True, now=now).pk,
        "granted": granted.pk,
    }


@pytest.fixture
def things(people, root, alice, bob, lead, team, project):
    """The pieces of addresses, by the words that the rows use."""
    yard = build_yard(root, alice, project)
    invitation, secret = invite(actor=lead, team=team, email="somebody@example.org")
    token, _ = issue_token(actor=alice, name="laptop", scopes=["jobs:read"])
    give_role(actor=root, user=person("clerk"), role="finance")
    create_team(actor=root, name="Apart")
    service = make_service_account(actor=lead, team=team, name="nightly")
    service_token, _ = issue_service_token(
        actor=lead, account=service, name="ci", scopes=["jobs:read"]
    )
    now = timezone.now()
    span = {"starts_at": now, "ends_at": now + timedelta(days=1)}
    delegation = delegate(actor=lead, deputy=people["bob"], scope="approve_requests", **span)
    second = person("second", is_superuser=True)
    give_role(actor=second, user=person("waiting"), role="admin")
    return {
        "running": yard.running.pk,
        "output": yard.running.outputs.get().pk,
        "queued": yard.queued.pk,
        "held": yard.held.pk,
        **waiting_of(alice, project),
        **asked_for(alice, lead, root, project, yard.cluster.pool),
        "pool": "default",
        **planned_by(root, lead, project, yard.cluster.pool),
        "node": "n1",
        **_FIRST,
        "team": team.slug,
        "project": project.slug,
        "membership": bob.memberships.get(team=team).pk,
        "invitation": invitation.pk,
        "secret": secret,
        "token": token.pk,
        "saved_view": save_view(actor=alice, table="jobs", name="all", query="").pk,
        "job_schedule": schedule_of(alice, project, now=timezone.now()).pk,
        "template": make_template(lead, team),
        "job_draft": save_draft(actor=alice, key="k", fields={"name": "x"}).pk,
        "kept": set_secret(actor=alice, name="mine", value="x" * 9).pk,
        "channel": channel_of(alice).pk,
        **moving_of(second),
        "kept_for_all": set_secret(actor=lead, name="ours", value="x" * 9, project=project).pk,
        "service": service.pk,
        "group_rule": add_group_rule(actor=root, group="all", team=team, role="lead").pk,
        "service_token": service_token.pk,
        "delegation": delegation.pk,
        **reports_of(root),
        **books_of(second, alice, project, yard.cluster),
        **costs_of(root, second, yard.cluster.pool),
    }


def planned_by(root: User, lead: User, project: Project, pool: Pool) -> dict[str, int]:
    """A booking, and a question to the simulator."""
    asked = ask_scenario(actor=root, pool=pool, hours=1, changes=["policy=fifo"])
    return {"booking": book_soon(lead, project, pool).pk, "scenario": asked.pk}


def waiting_of(alice: User, project: Project) -> dict[str, Any]:
    """An array, a session and a cancel of the array that wait."""
    session = submit(alice, project, script="", session="shell")
    job_set = submit(alice, project, array="0-3%2").job_set
    assert job_set is not None
    cancel = waiting_cancel(job_set).pk
    return {"job_set": job_set.pk, "session": session.pk, "bulk_cancel": cancel}


def reports_of(root: User) -> dict[str, Any]:
    """A report, a month, and a report that is sent by itself."""
    schedule = scheduled(root).pk
    told = announce(actor=root, text="x", until_at=timezone.now() + timedelta(1)).pk
    return {
        "report": "period-summary",
        "month": f"{timezone.now():%Y-%m}",
        "focus": "1.2",
        "announcement": told,
        "somebody": "bob",
        **hooked(root),
        "schedule": schedule,
        "dispute": "dispute",
    }


def books_of(second: User, alice: User, project: Project, cluster: Cluster) -> dict[str, Any]:
    """What was billed, what somebody else proposed, and a budget, for the pages of finance."""
    statement = billed(second, alice, project, cluster)
    amount = propose_adjustment(actor=second, project=project, amount=Decimal(3), reason="fans")
    begin = timezone.now()
    budget = set_budget(
        actor=second,
        owner=project.team,
        gpu_hours=5,
        valid_from=begin,
        valid_until=begin + timedelta(3),
    )
    words = {"post": "post", "decline": "decline", "soft_close": "soft-close"}
    return {
        "statement": statement,
        "adjustment": amount.pk,
        **desk_of(second),
        "budget": budget.pk,
        "month": f"{timezone.now():%Y-%m}",
        "past_month": "2020-01",
        **words,
    }


def scheduled(root: Any) -> ReportSchedule:
    """The administrator's own one."""
    type(root).objects.filter(pk=root.pk).update(email="root@example.org")
    root.refresh_from_db()
    return create_schedule(
        actor=root, slug="capacity", rhythm="weekly", file_format="csv", recipients=[root]
    )


def address(row: Row, things: dict[str, Any]) -> str:
    return reverse(row.route, args=[things[name] for name in row.args])


def ask(client: Client, row: Row, things: dict[str, Any]) -> Any:
    """The row's own request, undone afterwards."""
    send = client.get if row.method == "GET" else client.post
    with transaction.atomic():
        answer = send(address(row, things), row.data)
        transaction.set_rollback(True)
    return answer


def test_unknown_parameters_are_named_and_never_an_error(people, things, client):
    """Also hostile ones, on every page that answers with HTML of its own."""
    client.force_login(people["root"])
    silent = []
    for row in READ:
        sent = {**row.data, "zz<b>": "\x00'\u202e", "q2": "9"}
        answer = client.get(address(row, things), sent)
        html = b"" if answer.streaming else answer.content
        is_page = answer.status_code != 200 or b"<html" in html
        if is_page and not all(word in html for word in (b"zz&lt;b&gt;", b"q2")):
            silent.append((row.route, answer.status_code))
    assert not silent


def test_no_page_takes_nonsense_for_a_known_parameter_without_a_word(people, things, client):
    client.force_login(people["root"])
    places = [(row.route, address(row, things), row.data) for row in READ]
    assert " ".join(silent_pages(client.get, places)) == ""


def test_every_route_has_a_row():
    assert set(routes(urls.urlpatterns)) == {row.route for row in ROWS}


@pytest.mark.parametrize("persona", ASKING)
def test_each_persona_gets_what_the_table_says(client, people, things, persona):
    client.force_login(people[persona])
    found = {str(row): ask(client, row, things).status_code for row in ROWS}
    assert found == {str(row): row.statuses[persona] for row in ROWS}


def test_who_is_not_signed_in_is_asked_to(things):
    for row in ROWS:
        answer = ask(Client(), row, things)
        if row.route in OPEN_ROUTES:
            assert answer.status_code in (200, 302), row
            assert reverse("account_login") not in answer.headers.get("Location", ""), row
        else:
            assert answer.status_code == 302, row
            assert answer.url.startswith(reverse("account_login")), row
