"""Schedules whose owner has left: paused, told of, and taken over by a lead; their history."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent
from accounts.services import change_role, remove_member
from scheduler.models import Job, JobSchedule, Notification
from scheduler.selectors.recurring.acts import act_words, acts_on
from scheduler.services.errors import Conflict, Forbidden, NotFound
from scheduler.services.people.leaving import end_access
from scheduler.services.recurring import taking
from scheduler.services.recurring.keeping import change_schedule, pause_schedule, resume_schedule
from scheduler.services.recurring.running import run_now, submit_due
from scheduler.services.recurring.taking import may_take_over, take_over
from scheduler.spec import SpecInvalid
from tests import scenes
from tests.recurring import schedule_of
from tests.scenes import at

pytestmark = pytest.mark.django_db
TEN = 600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


@pytest.fixture
def nightly(cluster, alice, project):
    """Alice's, with a secret of hers."""
    env = {"MODE": "full", "API_TOKEN": "s3cret"}
    return schedule_of(alice, project, overlap="queue", job={"env": env})


def told(who) -> list[tuple[str, str]]:
    rows = Notification.objects.filter(person=who, kind="schedule_trouble").order_by("pk")
    return list(rows.values_list("title", "text"))


def test_a_lead_takes_it_over_and_it_goes_on_in_their_name(
    nightly, root, alice, bob, carol, lead, team, project
):
    assert submit_due(now=at(TEN)) == 1
    remove_member(actor=root, team=team, user=alice)
    assert submit_due(now=at(2 * TEN)) == 0
    nightly.refresh_from_db()
    assert "may not submit in vision/digits any more" in nightly.pause_reason
    [(title, text)] = told(lead)
    assert title == "Nightly is paused" and text.endswith("Take it over on its page, or delete it.")
    assert may_take_over(lead, nightly) and not may_take_over(bob, nightly)
    with pytest.raises(NotFound):
        take_over(actor=carol, schedule=nightly)
    with pytest.raises(Forbidden):
        take_over(actor=bob, schedule=nightly)
    taken = take_over(actor=lead, schedule=nightly, reason="alice moved on", now=at(2 * TEN + 5))
    assert taken.owner == lead and taken.paused_by == lead and taken.next_due_at is None
    assert taken.document["env"] == {"MODE": "full"}, "her secret is not the lead's"
    assert take_over(actor=lead, schedule=taken) == taken
    assert submit_due(now=at(3 * TEN)) == 0
    resume_schedule(actor=lead, schedule=taken, now=at(3 * TEN + 1))
    assert submit_due(now=at(4 * TEN)) == 1
    first, second = Job.objects.order_by("pk")
    assert (first.owner, second.owner) == (alice, lead)
    event = AuditEvent.objects.get(action="schedule.take_over")
    assert "API_TOKEN" in event.after and "s3cret" not in event.after + event.before
    assert event.reason == "alice moved on"


def test_while_its_owner_may_submit_nobody_takes_it(nightly, alice, lead, root, team):
    with pytest.raises(Conflict, match="is here and may change it") as refused:
        take_over(actor=lead, schedule=nightly)
    assert refused.value.code == "owner_here"
    change_role(actor=root, team=team, user=alice, role="finance")
    assert may_take_over(lead, JobSchedule.objects.select_related("owner", "project").get())


def test_who_is_let_out_leaves_schedules_paused_at_once(nightly, alice, lead, root):
    left = end_access(actor=root, user=alice, reason="left", cancel_jobs=False, now=at(5))
    assert left.schedules == 1
    nightly.refresh_from_db()
    assert nightly.paused_at == at(5) and len(told(lead)) == 1
    assert submit_due(now=at(TEN)) == 0 and len(told(lead)) == 1


def test_what_the_lead_could_not_submit_is_refused_and_so_is_one_too_many(
    nightly, alice, lead, root, team, project, monkeypatch
):
    remove_member(actor=root, team=team, user=alice)
    monkeypatch.setattr(taking, "MOST_OF_PERSON", 0)
    with pytest.raises(Conflict, match="You have 0 schedules already"):
        take_over(actor=lead, schedule=nightly)
    monkeypatch.undo()
    document = {**nightly.document, "gpus_per_node": 9}
    JobSchedule.objects.update(document=document)
    with pytest.raises(SpecInvalid):
        take_over(actor=lead, schedule=nightly)
    nightly.refresh_from_db()
    assert nightly.owner == alice


def test_its_history_has_every_act(nightly, alice, lead, root, team):
    change_schedule(actor=alice, schedule=nightly, changes={"rule": "@hourly"}, now=at(1))
    run_now(actor=alice, schedule=nightly, now=at(2))
    pause_schedule(actor=lead, schedule=nightly, reason="too dear", now=at(3))
    resume_schedule(actor=alice, schedule=nightly, now=at(4))
    end_access(actor=root, user=alice, reason="left", cancel_jobs=False, now=at(5))
    take_over(actor=lead, schedule=nightly, now=at(6))
    acts = [(act_words(one), one.actor_name, one.reason) for one in acts_on(lead, nightly)]
    assert acts == [
        ("taken over", "lead", ""),
        ("paused", "", f"{alice.get_full_name()}, its owner, may not sign in any more"),
        ("resumed", "alice", ""),
        ("paused", "lead", "too dear"),
        ("run by hand", "alice", ""),
        ("changed", "alice", ""),
        ("made", "alice", ""),
    ]
