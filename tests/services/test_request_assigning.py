"""Handing a request to somebody: by whom, to whom, who is told, and what it does not change."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.held import forget_grants
from accounts.models import AuditEvent
from accounts.services import delegate
from scheduler.models import OutboundMail
from scheduler.selectors.requesting import inbox_of
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.requesting.asking import answer_request
from scheduler.services.requesting.assigning import assign_request, people_to_assign
from scheduler.services.requesting.reminding import tend_requests
from tests import factories, scenes
from tests.requesting import ask, decide
from tests.scenes import at

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked(root, alice, project, lead):
    scenes.build_cluster(root, nodes=1, gpus=4)
    return ask(alice, project)


@pytest.fixture
def other(root, team):
    return factories.member("other", team, "lead", by=root)


def assign(actor, request, to, *, now=None):
    return assign_request(
        actor=actor, request_id=request.pk, version=request.version, to=to, now=now or at(30)
    )


def mails_to(person):
    return OutboundMail.objects.filter(person=person).count()


def test_who_is_named_is_told_and_reminded_and_others_are_left_in_peace(asked, lead, other):
    before = mails_to(lead), mails_to(other)
    done = assign(lead, asked, "other")
    assert (done.assigned_to, done.version) == (other, asked.version)
    assert (mails_to(lead), mails_to(other)) == (before[0], before[1] + 1)
    assert "was assigned to you by" in OutboundMail.objects.filter(person=other).last().subject
    assert [row.request for row in inbox_of(other, mine_only=True, now=at(31), is_assigned=True)]
    assert not inbox_of(lead, mine_only=True, now=at(31), is_assigned=True)
    # The same once more changes nothing; the reminder is for one.
    assert assign(lead, asked, "other").events.filter(kind="assigned").count() == 1
    tend_requests(now=at(30 * 3600))
    assert (mails_to(lead), mails_to(other)) == (before[0], before[1] + 2)
    event = AuditEvent.objects.get(action="request.assigned")
    before, after = json.loads(event.before), json.loads(event.after)
    assert (before["assigned_to"], after["assigned_to"]) == (None, "other")
    assert (event.actor_name, event.reason) == ("lead", "to Other")


def test_it_is_no_right_and_takes_none(asked, root, lead, other):
    assign(lead, asked, "other")
    # Another lead decides on the version that was shown before it was handed on.
    after = decide(lead, asked)
    assert (after.state, after.assigned_to) == ("admin_review", None)
    with pytest.raises(Forbidden):
        decide(other, after)


def test_a_person_who_may_decide_no_more_keeps_nobody_from_being_told(asked, root, lead, other):
    assign(lead, asked, "other")
    other.groups.clear()
    before = mails_to(lead), mails_to(other)
    tend_requests(now=at(30 * 3600))
    assert (mails_to(lead), mails_to(other)) == (before[0] + 1, before[1])


@pytest.mark.parametrize("to", ["alice", "carol", "nobody", "x" * 999])
def test_only_who_may_decide_is_named_and_others_look_alike(asked, lead, carol, to):
    with pytest.raises(Invalid, match="nobody who may decide") as refused:
        assign(lead, asked, to)
    assert refused.value.field == "to"
    asked.refresh_from_db()
    assert asked.assigned_to is None


def test_who_asked_and_strangers_choose_nobody(asked, alice, carol, lead):
    for actor in (alice, carol):
        with pytest.raises(Forbidden):
            assign(actor, asked, "lead")
    with pytest.raises(Conflict):
        assign_request(actor=lead, request_id=asked.pk, version=asked.version - 1, to="lead")
    denied = decide(lead, asked, "deny", reason_code="no_budget")
    with pytest.raises(Conflict, match="no decision"):
        assign(lead, denied, "lead")


def test_a_deputy_hands_on_for_whom_they_act_and_may_be_named(asked, lead, other, carol):
    now = timezone.now()
    begin, ends = now - timedelta(hours=1), now + timedelta(hours=1)
    lent = {"scope": "approve_requests", "team": None, "starts_at": begin, "ends_at": ends}
    delegate(actor=lead, deputy=carol, now=begin, **lent)
    assert carol in people_to_assign(asked, now=now)
    assign(lead, asked, "carol", now=now)
    forget_grants(carol)
    back = assign(carol, asked, "", now=now)
    last = back.events.last()
    assert (back.assigned_to, last.actor, last.on_behalf_of) == (None, carol, lead)


def test_a_question_and_its_answer_come_back_to_the_same_person(asked, alice, lead, other):
    assign(lead, asked, "other")
    question = decide(other, asked, "ask", comment="How long?")
    told = mails_to(other)
    back = answer_request(
        actor=alice, request_id=asked.pk, version=question.version, text="A week.", now=at(90)
    )
    assert (back.assigned_to, mails_to(other)) == (other, told + 1)
