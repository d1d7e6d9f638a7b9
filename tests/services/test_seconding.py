"""More than a hundred jobs of others end only when a second person agrees."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import AuditEvent, User
from accounts.services import delegate, make_service_account
from scheduler.models import BulkCancel, Job, Notification
from scheduler.selectors.inbox import calls_for
from scheduler.selectors.requesting.cancels import seen_cancels
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.holding.alone import SecondNeeded
from scheduler.services.jobs import cancel_job
from scheduler.services.seconding.deciding import (
    agree_to_cancel,
    refuse_to_cancel,
    withdraw_cancel,
)
from scheduler.services.seconding.proposing import (
    propose_to_cancel_jobs,
    propose_to_cancel_of,
    propose_to_cancel_set,
)
from scheduler.services.sets import cancel_set
from tests import scenes
from tests.factories import member
from tests.scenes import NOON, at, running, start, submit, sync
from tests.seconding import WHY, left, proposed

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, gpus=4)


@pytest.fixture
def array(cluster, alice, project):
    """One more task than one person ends alone."""
    return submit(alice, project, array="0-100").job_set


def fresh(user: User) -> User:
    return User.objects.get(pk=user.pk)


def audited(action: str) -> AuditEvent:
    return AuditEvent.objects.get(action=action)


def test_a_hundred_end_at_once_and_one_more_needs_a_second_person(cluster, alice, lead, project):
    hundred = submit(alice, project, array="0-99").job_set
    with pytest.raises(Conflict) as refused:
        proposed(lead, hundred)
    assert refused.value.code == "one_is_enough"
    one_more = submit(alice, project, array="0-100").job_set
    with pytest.raises(SecondNeeded) as refused:
        cancel_set(actor=lead, reason=WHY, job_set=one_more, now=NOON)
    assert refused.value.facts == {"jobs": 101, "ended_lately": 0, "alone_at_most": 100}
    assert left(one_more) == 101
    assert cancel_set(actor=lead, reason=WHY, job_set=hundred, now=NOON) == 100
    assert left(hundred) == 0


def test_ones_own_array_needs_nobody(array, alice):
    assert cancel_set(actor=alice, job_set=array, now=NOON) == 101


def test_two_people_end_an_array_together_with_both_names(cluster, array, alice, lead, operator):
    attempt = start(array.tasks.get(array_index=0), cluster.node(1))
    sync(cluster.node(1), running(attempt))
    after = submit(
        alice, array.project, depends_on=f"afterany:{array.tasks.get(array_index=100).pk}"
    )
    found = proposed(lead, array)
    assert (left(array), found.named, found.team_id) == (101, 101, array.project.team_id)
    done = agree_to_cancel(actor=operator, proposal=found, now=at(60))
    assert (done.outcome, done.ended, done.left_out) == ("agreed", 101, 0)
    states = dict.fromkeys(array.tasks.values_list("state", flat=True))
    assert set(states) == {"stopping", "cancelled"} and left(array) == 1
    task = array.tasks.get(array_index=1)
    assert (task.end_reason, task.end_facts) == (
        "cancelled_by_admin",
        {"who": "Lead and Operator", "because": WHY},
    )
    attempt.refresh_from_db()
    assert (attempt.stop_reason, attempt.stop_actor_name) == (
        "cancelled_by_admin",
        "Lead and Operator",
    )
    after.refresh_from_db()
    assert after.state == "queued"
    first, second = audited("bulk_cancel.propose"), audited("bulk_cancel.agree")
    assert (first.actor, first.reason, second.actor, second.reason) == (lead, WHY, operator, WHY)
    assert json.loads(second.after) == {
        "ended": 101,
        "stopped": 1,
        "noted_stops": 1,
        "left_out": 0,
        "proposed_by": "lead",
        "agreed_by": "operator",
    }
    assert agree_to_cancel(actor=operator, proposal=found, now=at(61)).ended == 101
    assert AuditEvent.objects.filter(action="bulk_cancel.agree").count() == 1


def test_only_what_was_named_and_has_not_ended_ends(cluster, alice, lead, operator, project):
    jobs = [submit(alice, project) for _ in range(101)]
    found = propose_to_cancel_of(actor=lead, person=alice, reason=WHY, now=NOON)
    later = submit(alice, project)
    cancel_job(actor=alice, job=jobs[0], now=at(1))
    done = agree_to_cancel(actor=operator, proposal=found, now=at(2))
    assert (done.named, done.ended, done.left_out) == (101, 100, 1)
    assert list(Job.objects.filter(state="queued")) == [later]
    told = Notification.objects.get(person=lead, kind="request_decided")
    assert told.text == "Ended: 100; 1 had ended before."


def test_who_may_agree(array, alice, bob, lead, operator, carol, finance, root):
    found = proposed(lead, array)
    for one in (lead, bob, carol, finance):
        with pytest.raises(Forbidden):
            agree_to_cancel(actor=one, proposal=found, now=NOON)
        if one is not lead:
            with pytest.raises(Forbidden):
                refuse_to_cancel(actor=one, proposal=found, reason="No.", now=NOON)
    assert left(array) == 101
    # Whose they all are, who runs the cluster, and another lead might each do it alone or together.
    other = member("other", array.project.team, "lead", by=root)
    for one in (alice, operator, root, other):
        with transaction.atomic():
            assert agree_to_cancel(actor=one, proposal=found, now=NOON).ended == 101
            transaction.set_rollback(True)


def test_a_second_person_needs_the_right_for_every_job(
    cluster, alice, carol, lead, operator, root, project, other_project
):
    jobs = [submit(alice, project) for _ in range(100)] + [submit(carol, other_project)]
    found = propose_to_cancel_jobs(actor=operator, jobs=jobs, reason=WHY, now=NOON)
    assert found.team_id is None
    for one in (lead, alice, carol):
        with pytest.raises(Forbidden):
            agree_to_cancel(actor=one, proposal=found, now=NOON)
    told = Notification.objects.filter(subject=f"bulk_cancel:{found.pk}")
    assert [one.person for one in told] == [root]
    assert agree_to_cancel(actor=root, proposal=found, now=NOON).ended == 101


def test_a_deputy_is_no_second_person_for_whom_they_act(array, bob, lead, root):
    now = timezone.now()
    until = now + timedelta(days=1)
    delegate(actor=lead, deputy=bob, scope="manage_team", starts_at=now, ends_at=until)
    bob = fresh(bob)
    found = proposed(lead, array)
    with pytest.raises(Forbidden):
        agree_to_cancel(actor=bob, proposal=found, now=NOON)
    other = member("other", array.project.team, "lead", by=root)
    withdraw_cancel(actor=lead, proposal=found, now=NOON)
    found = proposed(other, array)
    assert agree_to_cancel(actor=bob, proposal=found, now=NOON).ended == 101


def test_the_number_beside_approvals_is_of_what_one_may_answer(
    cluster, array, alice, bob, carol, finance, lead, operator, root, project, other_project
):
    now, team = timezone.now(), array.project.team
    other = member("other", team, "lead", by=root)
    delegate(
        actor=lead, deputy=bob, scope="manage_team", starts_at=now, ends_at=now + timedelta(days=1)
    )
    proposed(lead, array, now=now)
    second = submit(alice, project, array="0-100").job_set
    proposed(other, second, now=now)
    jobs = [submit(alice, project) for _ in range(100)] + [submit(carol, other_project)]
    propose_to_cancel_jobs(actor=operator, jobs=jobs, reason=WHY, now=now)
    program = make_service_account(actor=lead, team=team, name="ci")
    people = {
        one.username: fresh(one)
        for one in (alice, bob, carol, finance, lead, operator, other, root, program)
    }
    numbers = {}
    for name, one in people.items():
        seen = seen_cancels(one, now=now, only_waiting=True)
        numbers[name] = calls_for(one).cancels
        assert numbers[name] == sum("agree" in each.actions for each in seen), name
    assert numbers.pop(program.username) == numbers.pop(carol.username) == 0
    said = {"alice": 2, "bob": 1, finance.username: 0, "lead": 1, "other": 1}
    assert numbers == {**said, operator.username: 2, root.username: 3}
    BulkCancel.objects.update(lapses_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert not any(calls_for(fresh(one)).cancels for one in people.values())


def test_programs_are_no_second_person(array, lead, team):
    program = make_service_account(actor=lead, team=team, name="ci")
    found = proposed(lead, array)
    with pytest.raises(Forbidden, match="programs"):
        agree_to_cancel(actor=program, proposal=found, now=NOON)
    with pytest.raises(Forbidden, match="programs"):
        propose_to_cancel_set(actor=program, job_set=array, reason=WHY, now=NOON)


def test_it_can_be_refused_taken_back_or_lapse(array, lead, operator, root):
    refused = proposed(lead, array)
    with pytest.raises(Invalid) as problem:
        refuse_to_cancel(actor=operator, proposal=refused, reason=" ", now=NOON)
    assert problem.value.field == "reason"
    done = refuse_to_cancel(actor=operator, proposal=refused, reason="They are needed.", now=NOON)
    assert (done.outcome, done.said, done.ended) == ("refused", "They are needed.", None)
    back = proposed(lead, array)
    assert back.pk != refused.pk
    with pytest.raises(Forbidden):
        withdraw_cancel(actor=operator, proposal=back, now=NOON)
    for _ in range(2):
        assert withdraw_cancel(actor=lead, proposal=back, now=NOON).outcome == "withdrawn"
    late = proposed(lead, array)
    day = timedelta(hours=24)
    for each in (refused, back):
        with pytest.raises(Conflict):
            agree_to_cancel(actor=root, proposal=each, now=NOON)
    with pytest.raises(Conflict, match="lapsed"):
        agree_to_cancel(actor=operator, proposal=late, now=NOON + day)
    anew = proposed(operator, array, now=NOON + day)
    late.refresh_from_db()
    assert (late.outcome, left(array)) == ("lapsed", 101)
    assert agree_to_cancel(actor=lead, proposal=anew, now=NOON + day + day / 2).ended == 101


def test_one_proposal_waits_at_a_time(array, lead, operator):
    found = proposed(lead, array)
    assert proposed(lead, array, reason="once more").pk == found.pk
    with pytest.raises(Conflict) as refused:
        proposed(operator, array)
    assert refused.value.code == "already_proposed"
    assert refused.value.facts == {"bulk_cancel": found.pk}
    assert BulkCancel.objects.get().reason == WHY


def test_it_needs_a_reason_and_somebody_to_agree(array, alice, lead, root, operator):
    for reason in ("", "  ", "x" * 201, "two\nlines"):
        with pytest.raises(Invalid) as problem:
            proposed(lead, array, reason=reason)
        assert problem.value.field == "reason"
    assert not BulkCancel.objects.exists()
    User.objects.exclude(pk=lead.pk).update(is_active=False)
    with pytest.raises(Conflict) as refused:
        proposed(lead, array)
    assert refused.value.code == "nobody_to_agree"


def test_who_might_agree_is_told_once(array, alice, lead, operator, root, bob, carol):
    found = proposed(lead, array)
    told = Notification.objects.filter(subject=f"bulk_cancel:{found.pk}")
    assert {one.person for one in told} == {alice, operator, root}
    assert told[0].title == (
        f"Lead wants to cancel 101 jobs of array {array.pk}: a second person has to agree"
    )
    assert told[0].path == f"/approvals/cancels/{found.pk}/"


def test_the_database_keeps_one_person_from_being_two(array, lead, root):
    found = proposed(lead, array)
    with pytest.raises(IntegrityError), transaction.atomic():
        BulkCancel.objects.filter(pk=found.pk).update(outcome="agreed", decided_by=lead)
