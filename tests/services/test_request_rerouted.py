"""What changes while a request is on its way may bring more people in, at whatever step."""

from __future__ import annotations

from decimal import Decimal

import pytest

from accounts.models import Team
from accounts.services import appoint_bookkeeper
from scheduler.models import OutboundMail
from scheduler.services.requesting.assigning import assign_request
from scheduler.services.requesting.policies import set_request_policy
from scheduler.services.requesting.reminding import tend_requests
from scheduler.services.sharing.budgets import set_budget
from tests import factories, scenes
from tests.requesting import DAY_S, ask, decide
from tests.scenes import at

pytestmark = pytest.mark.django_db
NOTHING = {"reminded": 0, "escalated": 0, "expired": 0, "returned": 0}


@pytest.fixture
def books(root, lead):
    scenes.build_cluster(root, nodes=1, gpus=4)
    person = factories.person("books")
    appoint_bookkeeper(actor=root, user=person)
    return person


def purse(actor, owner, amount):
    times = {"valid_from": at(-DAY_S), "valid_until": at(60 * DAY_S), "now": at(0)}
    return set_budget(actor=actor, owner=owner, amount=Decimal(amount), **times)


@pytest.fixture
def wish(books, team, project, alice):
    """Money within what the team has, which is given to others once this is called."""
    purse(books, project, 100)
    purse(books, team, 150)

    def asked():
        request = ask(alice, project, kind="money", amount=50)
        purse(books, team, 120)
        return request

    return asked


def test_money_beyond_the_teams_goes_to_finance_after_an_administrator_too(root, wish, books):
    request = wish()
    assert request.route == ["lead"]
    late = at(3 * DAY_S)
    assert tend_requests(now=late)["escalated"] == 1
    request.refresh_from_db()
    assert request.route == ["admin"]
    waits = decide(root, request, now=late)
    assert (waits.state, waits.route) == ("finance_review", ["finance"])
    assert decide(books, waits, now=late).state == "approved"


def test_and_after_a_lead_where_an_administrator_follows_by_rule(root, wish, books, lead):
    set_request_policy(actor=root, kind="money", always_admin=True, now=at(0))
    request = wish()
    assert request.route == ["lead", "admin"]
    waits = decide(lead, request)
    assert waits.route == ["admin", "finance"]
    assert decide(books, decide(root, waits)).state == "approved"


def test_what_has_become_dear_goes_to_finance(root, books, project, alice, lead):
    agreed = decide(lead, ask(alice, project))
    assert agreed.route == ["admin"]
    set_request_policy(actor=root, money_limit=Decimal(10), now=at(0))
    waits = decide(root, agreed)
    assert waits.route == ["finance"]
    assert decide(books, waits).state == "approved"


def test_teams_below_are_part_of_what_a_team_has_given(root, books, team, project, alice):
    below = Team.objects.create(slug="below", name="Below", parent=team)
    hours = {"valid_from": at(-DAY_S), "valid_until": at(60 * DAY_S), "now": at(0)}
    for owner, most in ((team, 100), (below, 80), (project, 10)):
        set_budget(actor=root, owner=owner, gpu_hours=most, **hours)
    assert ask(alice, project, kind="budget", amount=10).route == ["lead"]


def test_more_than_they_have_left_is_not_a_leads_to_give(root, books, team, project, alice):
    below = Team.objects.create(slug="below", name="Below", parent=team)
    for owner, most in ((team, 100), (below, 80), (project, 10)):
        purse(books, owner, most)
    assert ask(alice, project, kind="money", amount=11).route == ["lead", "finance"]


def test_who_has_agreed_is_not_asked_again(root, books, project, alice, lead):
    """An administrator who took the lead's step has no other."""
    second = factories.person("second", is_superuser=True)
    agreed = decide(root, ask(alice, project))
    waits = OutboundMail.objects.filter(subject__contains="waits for you")
    assert {one.person for one in waits.filter(key__contains=f":{agreed.version}:")} == {second}


def test_a_step_of_ninety_days_is_escalated_before_it_expires(root, books, project, alice, lead):
    set_request_policy(actor=root, sla_hours=90 * 24, now=at(0))
    request = ask(alice, project)
    assert tend_requests(now=at(89 * DAY_S))["expired"] == 0
    assert tend_requests(now=at(90 * DAY_S)) == {**NOTHING, "escalated": 1}
    assert tend_requests(now=at(186 * DAY_S))["expired"] == 0
    assert tend_requests(now=at(187 * DAY_S))["expired"] == 1
    request.refresh_from_db()
    assert request.state == "expired"


def test_who_hands_it_on_touches_it(root, books, project, alice, lead):
    request = ask(alice, project)
    who = {"actor": root, "request_id": request.pk, "version": request.version}
    assert assign_request(**who, to="lead", now=at(20 * DAY_S)).touched_at == at(20 * DAY_S)
