"""Elastic jobs at work change their size: asked, kept, gone on, through whole cycles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.engine.policy import Order, Policy
from scheduler.loop.cycle import Scheduler
from scheduler.models import Attempt, Claim, Node
from scheduler.selectors.usage import job_cost
from scheduler.services.preempting.claims import drop_claims
from scheduler.services.submitting.ceilings import set_ceiling
from scheduler.states import EndReason, JobState, WaitReason, end_sentence
from tests.scenes import NOON, at, ended, running, states, submit, sync

pytestmark = pytest.mark.django_db

POLICY = Policy(preempts=True, resizes=True, min_run_s=60, rest_s=600)


@pytest.fixture
def scheduler(cluster, project, root):
    set_ceiling(actor=root, owner=project, tier="production")
    return Scheduler(holder="test", policy=POLICY)


@pytest.fixture
def elastic(scheduler, alice, project):
    """On one or two nodes of two GPUs each; on both, at work from the third second on."""
    job = submit(alice, project, nodes="1..2", gpus_per_node=2, name="elastic", time_limit="10h")
    turn(scheduler, 1)
    runs(job, 3)
    return job


def turn(scheduler, seconds):
    """A cycle so long after noon; all nodes have just been heard."""
    Node.objects.update(last_seen_at=at(seconds))
    return scheduler.run_cycle(at(seconds))


def runs(job, seconds):
    """All ranks of its newest attempt report that they run, with a checkpoint of that moment."""
    attempt = job.attempts.latest("number")
    for placement in attempt.placements.order_by("rank"):
        sync(placement.node, running(attempt, placement.rank), now=at(seconds))
    Attempt.objects.filter(pk=attempt.pk).update(
        started_at=at(seconds), checkpoint_at=at(seconds), checkpoint_step=7
    )


def leaves(job, seconds, reason=EndReason.PREEMPTED):
    """Its nodes report that it has stopped, as they were asked to or by itself."""
    attempt = job.attempts.latest("number")
    for placement in attempt.placements.order_by("rank"):
        code = 0 if reason is EndReason.COMPLETED else None
        report = ended(attempt, placement.rank, reason=reason, exit_code=code)
        sync(placement.node, report, now=at(seconds))
    job.refresh_from_db()


def places(job):
    """The nodes of its newest attempt, by name."""
    attempt = job.attempts.latest("number")
    return [placement.node.name for placement in attempt.placements.order_by("rank")]


def test_it_gives_a_node_back_and_goes_on_with_the_other(scheduler, elastic, alice, project):
    assert places(elastic) == ["n1", "n2"]
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    assert turn(scheduler, 100).stopped == 1
    attempt = elastic.attempts.get()
    assert (attempt.stop_reason, attempt.stopped_for) == (EndReason.RESIZED, urgent)
    kept = set(Claim.objects.values_list("job__name", "node__name"))
    assert sorted(kept) == [("elastic", "n1"), ("train", "n2")]
    urgent.refresh_from_db()
    assert urgent.wait_reason == WaitReason.PREEMPTION_IN_PROGRESS
    # What is kept for them nobody else gets, however urgent.
    thief = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(101))
    assert turn(scheduler, 101).stopped == 0

    leaves(elastic, 110)
    assert (elastic.state, elastic.queued_at) == (JobState.QUEUED, NOON)
    assert turn(scheduler, 111).started == 2
    for job in (elastic, urgent, thief):
        job.refresh_from_db()
    assert (elastic.state, urgent.state, thief.state) == ("starting", "starting", "queued")
    assert (places(elastic), places(urgent)) == (["n1"], ["n2"])
    assert not Claim.objects.exists()
    assert (elastic.user_retries_used, elastic.free_retries_used) == (0, 0)


@pytest.mark.parametrize("order", [Order.SHORTEST, Order.LAS])
def test_so_it_does_where_all_who_run_are_chosen_anew(scheduler, elastic, alice, project, order):
    scheduler.policy = replace(POLICY, order=order)
    short = submit(alice, project, gpus_per_node=2, time_limit="5m", now=at(90))
    assert turn(scheduler, 5000).stopped == 1
    attempt = elastic.attempts.get()
    assert (attempt.stop_reason, attempt.stopped_for) == (EndReason.RESIZED, short)
    leaves(elastic, 5010)
    assert turn(scheduler, 5011).started == 2
    assert (places(elastic), places(short)) == (["n1"], ["n2"])
    assert not Claim.objects.exists()


def test_everybody_can_read_why_and_only_what_it_held_is_charged(
    scheduler, elastic, alice, project
):
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    leaves(elastic, 103)
    turn(scheduler, 103)
    runs(elastic, 103)
    first = elastic.attempts.order_by("number").first()
    said = end_sentence(first.end_reason, first.end_facts)
    assert f"with 1 instead of 2 nodes, to make room for job {urgent.pk}." in said
    assert "it resumes from step 7" in said
    assert states(elastic) == [
        "queued",
        "starting",
        "running",
        "stopping",
        "queued",
        "starting",
        "running",
    ]
    ordered = elastic.events.get(kind="resize_ordered").detail
    assert (ordered["was"], ordered["nodes"], ordered["cost_gpu_s"] > 0) == (2, 1, True)
    leaves(elastic, 203, EndReason.COMPLETED)
    assert elastic.state == JobState.SUCCEEDED
    # Four GPUs until 103 s, two from then on; from the first second on that they were its own.
    assert job_cost(alice, elastic, now=at(300)).gpu_seconds == 4 * 102 + 2 * 100


def test_it_grows_where_nobody_waits_once_it_has_run_a_while(scheduler, alice, project):
    other = submit(alice, project, gpus_per_node=2, name="other")
    job = submit(alice, project, nodes="1..2", gpus_per_node=2, name="elastic", time_limit="10h")
    assert turn(scheduler, 1).started == 2
    runs(job, 3)
    runs(other, 3)
    leaves(other, 50, EndReason.COMPLETED)
    assert turn(scheduler, 62).stopped == 0
    assert turn(scheduler, 63).stopped == 1
    attempt = job.attempts.get()
    assert (attempt.stop_reason, attempt.stopped_for) == (EndReason.RESIZED, None)
    leaves(job, 65)
    assert turn(scheduler, 66).started == 1
    assert sorted(places(job)) == ["n1", "n2"]
    attempt.refresh_from_db()
    said = end_sentence(attempt.end_reason, attempt.end_facts)
    assert "with 2 instead of 1 nodes, as nobody waits for the others." in said


def test_it_is_left_alone_for_a_while_after_that(scheduler, elastic, alice, project):
    submit(alice, project, tier="urgent", gpus_per_node=2, name="short", now=at(90))
    turn(scheduler, 100)
    leaves(elastic, 103)
    turn(scheduler, 104)
    runs(elastic, 105)
    short = type(elastic).objects.get(name="short")
    runs(short, 105)
    leaves(short, 200, EndReason.COMPLETED)
    # It could have the second node again, and does only when its rest is over.
    assert turn(scheduler, 690).stopped == 0
    assert turn(scheduler, 703).stopped == 1


def test_a_room_that_is_lost_leaves_it_in_the_queue(scheduler, elastic, alice, project):
    submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    leaves(elastic, 110)
    Node.objects.filter(name="n1").update(state="draining")
    turn(scheduler, 111)
    elastic.refresh_from_db()
    assert elastic.state == JobState.QUEUED and not Claim.objects.exists()


def test_its_room_is_kept_while_its_last_checkpoint_is_read(scheduler, elastic, alice, project):
    submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    attempt = elastic.attempts.get()
    leaves(elastic, 110)
    drop_claims(now=at(100 + attempt.stop_grace_s + 130))
    assert set(Claim.objects.values_list("job__name", flat=True)) == {"elastic"}
    drop_claims(now=at(100 + attempt.stop_grace_s + 730))
    assert not Claim.objects.exists()


def test_who_is_not_to_be_stopped_keeps_its_size(scheduler, alice, project):
    job = submit(alice, project, nodes="1..2", gpus_per_node=2, preemptible=False, time_limit="10h")
    turn(scheduler, 1)
    runs(job, 3)
    submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    assert turn(scheduler, 5000).stopped == 0


def test_with_the_setting_off_it_is_stopped_as_a_whole(scheduler, elastic, alice, project):
    scheduler.policy = Policy(preempts=True, min_run_s=60, rest_s=600)
    submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    assert turn(scheduler, 100).stopped == 1
    assert elastic.attempts.get().stop_reason == EndReason.PREEMPTED
