"""Deciding in somebody's place: between its dates, named in the record, never round one's own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import AuditEvent, Delegation, Role, User
from accounts.services import add_member, create_project, create_team, delegate, end_delegation
from scheduler.models import OutboundMail
from scheduler.selectors.inbox import calls_for
from scheduler.selectors.requesting import get_visible_request, inbox_of
from scheduler.services.errors import Forbidden, NotFound
from scheduler.services.requesting.asking import comment_on_request
from scheduler.services.requesting.assigning import people_to_assign
from scheduler.services.requesting.foreseeing.whatif import ask_whatif
from scheduler.services.requesting.reminding import tend_requests
from scheduler.services.requesting.rights import may_decide
from scheduler.services.sharing.limits import set_quota
from tests import factories, scenes
from tests.requesting import ask, decide

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def cluster(root, team):
    made = scenes.build_cluster(root, nodes=1, gpus=4)
    set_quota(actor=root, owner=team, guaranteed=4)
    return made


def lend(giver, deputy, team=None, *, start=None):
    start = start or timezone.now() - HOUR
    delegate(
        actor=giver,
        deputy=deputy,
        scope="approve_requests",
        team=team,
        starts_at=start,
        ends_at=start + 24 * HOUR,
        now=start,
    )
    return User.objects.get(pk=deputy.pk)


def test_a_deputy_decides_and_the_record_says_for_whom(cluster, project, alice, lead, carol):
    deputy, now = lend(lead, carol), timezone.now()
    request = ask(alice, project, now=now)
    assert calls_for(deputy).requests == 1
    assert inbox_of(deputy, mine_only=True, now=now)[0].is_mine
    assert OutboundMail.objects.filter(person=carol).count() == 1
    done = decide(deputy, request, now=now)
    assert done.state == "approved"
    stored = done.decisions.get()
    assert (stored.decided_by, stored.on_behalf_of) == (carol, lead)
    event = AuditEvent.objects.get(action="request.decide")
    assert (event.actor_name, event.on_behalf_of_name) == ("carol", "lead")
    assert get_visible_request(deputy, request.pk).state == "approved"


def test_all_that_a_deputy_does_to_a_request_says_for_whom(cluster, project, alice, lead, carol):
    """What was granted or booked, too, and words and simulations; nobody else is named for it."""
    deputy, now = lend(lead, carol), timezone.now()
    begin = now + HOUR
    more = {"pool": cluster.pool, "valid_from": begin, "valid_until": begin + 4 * HOUR}
    booked = ask(alice, project, kind="reservation", amount=2, now=now, **more)
    comment_on_request(actor=deputy, request=booked, text="For the demonstration?", now=now)
    ask_whatif(actor=deputy, request=booked, now=now)
    assert decide(deputy, booked, now=now).state == "approved"
    assert decide(deputy, ask(alice, project, now=now), now=now).state == "approved"
    done = AuditEvent.objects.filter(actor_name="carol")
    acts = {"request.comment", "request.simulate", "booking.plan", "quota.grant"}
    assert acts <= {one.action for one in done}
    assert {one.on_behalf_of_name for one in done} == {"lead"}
    comment_on_request(actor=lead, request=booked, text="Yes.", now=now)
    assert AuditEvent.objects.filter(actor_name="lead").last().on_behalf_of_name == ""


def test_outside_its_time_it_has_no_effect(cluster, project, alice, lead, carol):
    deputy, now = lend(lead, carol, start=timezone.now() + HOUR), timezone.now()
    request = ask(alice, project, now=now)
    assert calls_for(deputy).requests == 0
    with pytest.raises(NotFound):
        get_visible_request(deputy, request.pk)
    with pytest.raises(Forbidden):
        decide(deputy, request, now=now)


def test_nobody_has_their_own_decided_by_who_acts_for_them(
    cluster, root, team, project, lead, carol
):
    other = factories.member("other", team, Role.LEAD, by=root)
    deputy, now = lend(lead, carol), timezone.now()
    request = ask(lead, project, now=now)
    assert request.state == "lead_review"
    with pytest.raises(Forbidden, match="act for somebody who asked"):
        decide(deputy, request, now=now)
    assert decide(other, request, now=now).state == "approved"


def test_who_asked_does_not_decide_as_somebodys_deputy(cluster, project, alice, lead):
    deputy, now = lend(lead, alice), timezone.now()
    request = ask(deputy, project, now=now)
    assert calls_for(deputy).requests == 0
    with pytest.raises(Forbidden, match="You asked"):
        decide(deputy, request, now=now)


def test_one_person_takes_no_second_step_as_a_deputy(cluster, root, project, alice, lead, carol):
    deputy, now = lend(root, lead), timezone.now()
    request = ask(alice, project, amount=9, now=now)
    after = decide(deputy, request, now=now)
    assert after.state == "admin_review"
    with pytest.raises(Forbidden, match="earlier step"):
        decide(deputy, after, now=now)


@pytest.fixture
def useless(root, team, other_team, lead):
    """Makes delegations of the lead that let nobody decide for `vision`: ended early, for another
    team, for a team above, to somebody who has left."""

    def make(deputy) -> None:
        add_member(actor=root, team=other_team, user=lead, role=Role.LEAD)
        lend(lead, deputy)
        end_delegation(actor=lead, delegation=Delegation.objects.get())
        lend(lead, deputy, other_team)
        gone = factories.person("gone")
        lend(lead, gone, team)
        User.objects.filter(pk=gone.pk).update(is_active=False)

    return make


def test_who_can_decide_no_more_is_told_nothing(cluster, useless, project, alice, lead, carol):
    useless(carol)
    now = timezone.now()
    request = ask(alice, project, now=now)
    assert [one.person for one in OutboundMail.objects.all()] == [lead]
    assert people_to_assign(request, now=now) == [lead, User.objects.get(username="root")]
    # Nobody acts for the lead: it goes up without waiting for anybody.
    assert tend_requests(now=now + 48 * HOUR)["escalated"] == 1
    request.refresh_from_db()
    assert request.state == "admin_review"


def test_what_was_lent_for_one_team_is_not_for_the_steps_of_all(
    cluster, root, team, project, alice, lead, carol, bob
):
    lend(root, carol, team)
    lend(root, bob)
    now = timezone.now()
    request = decide(lead, ask(alice, project, amount=9, now=now), now=now)
    assert request.state == "admin_review"
    told = OutboundMail.objects.filter(key__contains=":step:", key__startswith="request:")
    assert {one.person for one in told.filter(subject__contains="waits for you")} >= {bob}
    assert carol not in {one.person for one in told}
    assert carol not in people_to_assign(request, now=now)
    assert bob in people_to_assign(request, now=now)


def test_one_for_the_team_counts_and_one_for_the_team_above_does_not(
    cluster, root, team, lead, carol, bob
):
    """As `acting_for` decides: a delegation names one team and reaches no further down."""
    below = create_team(actor=root, name="Below", parent=team)
    inner = create_project(actor=root, team=below, name="Inner")
    member = factories.member("inner", below, by=root)
    lend(lead, carol, team)
    lend(lead, bob, below)
    request = ask(member, inner, now=timezone.now())
    may = {one for one in (carol, bob) if may_decide(User.objects.get(pk=one.pk), request)}
    told = {one.person for one in OutboundMail.objects.all()}
    assert may == told & {carol, bob} == {bob}
