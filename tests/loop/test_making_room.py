"""Jobs that stop others: asked, kept, taken up, through whole cycles."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.conf import load_conf
from scheduler.engine.policy import Order, Policy
from scheduler.loop import cycle as loop_cycle
from scheduler.loop.cycle import Scheduler
from scheduler.loop.loading import load_snapshot
from scheduler.models import (
    Allocation,
    Attempt,
    Claim,
    Device,
    Node,
    SchedulerLease,
)
from scheduler.services.jobs import cancel_job
from scheduler.services.nodes import drain_node
from scheduler.services.sharing.policies import policy_in_force, set_policy
from scheduler.services.submitting.ceilings import set_ceiling
from scheduler.states import DeviceHealth, EndReason, JobState, WaitReason, end_sentence
from tests.scenes import NOON, at, ended, running, states, submit, sync

pytestmark = pytest.mark.django_db

TIERS = Policy(preempts=True, min_run_s=60, rest_s=600)


@pytest.fixture
def scheduler(cluster, project, root):
    """Lets higher tiers stop lower ones after a minute, and the project submit at all of them."""
    set_ceiling(actor=root, owner=project, tier="production")
    return Scheduler(holder="test", policy=TIERS)


@pytest.fixture
def full(scheduler, cluster, alice, project):
    """A job of two GPUs on each node, at work from the third second on; the second saved last."""
    jobs = [submit(alice, project, gpus_per_node=2, name=f"old-{n}") for n in (1, 2)]
    turn(scheduler, 1)
    for job in jobs:
        attempt = job.attempts.get()
        sync(attempt.placements.get().node, running(attempt), now=at(3))
    Attempt.objects.update(started_at=at(3))
    Attempt.objects.filter(job=jobs[0]).update(checkpoint_at=at(20))
    Attempt.objects.filter(job=jobs[1]).update(checkpoint_at=at(95))
    return jobs


def turn(scheduler, seconds):
    """A cycle so long after noon; all nodes have just been heard."""
    Node.objects.update(last_seen_at=at(seconds))
    return scheduler.run_cycle(at(seconds))


def preempted(job, now):
    """The node reports that the job has stopped as it was asked to."""
    attempt = job.attempts.latest("number")
    for placement in attempt.placements.order_by("rank"):
        report = ended(attempt, placement.rank, reason=EndReason.PREEMPTED, exit_code=None)
        sync(placement.node, report, now=now)


def test_the_whole_way(scheduler, full, alice, project):
    """Asked, kept, not stolen, taken up; the victim waits again in its old place."""
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    outcome = turn(scheduler, 100)
    assert (outcome.started, outcome.stopped) == (0, 1)
    victim, other = full[1], full[0]
    victim.refresh_from_db()
    urgent.refresh_from_db()
    assert victim.state == JobState.STOPPING
    assert (urgent.state, urgent.wait_reason) == (JobState.QUEUED, "preemption_in_progress")
    assert urgent.wait_facts["victims"] == [victim.pk]
    attempt = victim.attempts.get()
    assert (attempt.stop_reason, attempt.stopped_for) == (EndReason.PREEMPTED, urgent)
    assert Claim.objects.filter(job=urgent).count() == 2

    thief = submit(alice, project, gpus_per_node=1, tier="urgent", now=at(101))
    for second in (102, 103):
        outcome = turn(scheduler, second)
        assert (outcome.started, outcome.stopped) == (0, 1 if second == 102 else 0)
    # The second urgent job stops the other one; what is kept stays kept.
    other.refresh_from_db()
    assert other.state == JobState.STOPPING
    preempted(victim, at(105))
    turn(scheduler, 106)
    urgent.refresh_from_db()
    thief.refresh_from_db()
    assert (urgent.state, thief.state) == (JobState.STARTING, JobState.QUEUED)
    assert urgent.attempts.get().placements.get().node == attempt.placements.get().node
    assert not Claim.objects.filter(job=urgent).exists()

    victim.refresh_from_db()
    assert (victim.state, victim.queued_at) == (JobState.QUEUED, NOON)
    attempt.refresh_from_db()
    assert attempt.end_facts["beneficiary"] == urgent.pk
    assert f"room for job {urgent.pk};" in end_sentence(attempt.end_reason, attempt.end_facts)
    assert states(victim) == ["queued", "starting", "running", "stopping", "queued"]
    asked = victim.events.get(kind="stop_requested").detail
    assert (asked["beneficiary"], asked["why"], asked["lost_s"]) == (urgent.pk, "tier", 5)
    assert urgent.events.get(kind="room_ordered").detail["victims"] == [victim.pk]


def test_equals_wait_and_say_so(scheduler, full, alice, project):
    equal = submit(alice, project, gpus_per_node=2, now=at(90))
    assert turn(scheduler, 5000).stopped == 0
    equal.refresh_from_db()
    assert equal.wait_reason == WaitReason.CAPACITY_BUSY


def test_by_default_higher_tiers_stop_lower_ones_after_ten_minutes(full, scheduler, alice, project):
    submit(alice, project, tier="production", gpus_per_node=2, now=at(90))
    scheduler.policy = None
    assert turn(scheduler, 602).stopped == 0
    assert turn(scheduler, 603).stopped == 1


@pytest.mark.parametrize(("word", "order", "stops"), [
    ("tiers", "fair", True), ("tiers", "fifo", True), ("tiers", "las", False),
    ("tiers", "shortest", False), ("true", "las", True), ("false", "fair", False),
])  # fmt: skip
def test_the_setting_says_under_which_orders_jobs_are_stopped(settings, word, order, stops):
    settings.TRAINYARD = {**settings.TRAINYARD, "preempt": word, "order": order}
    assert load_conf().policy.preempts is stops


def test_a_rule_that_leaves_it_open_follows_the_setting(root, settings, db):
    set_policy(actor=root, name="fifo")
    settings.TRAINYARD = {**settings.TRAINYARD, "preempt": "false"}
    assert not policy_in_force().preempts
    set_policy(actor=root, name="fifo", preempts=True)
    assert policy_in_force().preempts and policy_in_force().min_run_s == 600


def test_a_promised_minute_is_kept(scheduler, full, alice, project):
    submit(alice, project, tier="urgent", gpus_per_node=2, now=at(4))
    assert turn(scheduler, 62).stopped == 0
    assert turn(scheduler, 63).stopped == 1


@pytest.mark.parametrize(
    "fields",
    [{"preemptible": False}, {"min_runtime": "2h", "time_limit": "4h"}, {"tier": "production"}],
)
def test_who_may_not_be_stopped_is_not(scheduler, cluster, alice, project, fields):
    held = submit(alice, project, gpus_per_node=2, nodes=2, **fields)
    turn(scheduler, 1)
    for rank in (0, 1):
        sync(cluster.node(rank + 1), running(held.attempts.get(), rank), now=at(3))
    Attempt.objects.update(started_at=at(3))
    submit(alice, project, tier="production", gpus_per_node=2, now=at(90))
    assert turn(scheduler, 3600).stopped == 0


def test_a_victim_that_ends_by_itself_leaves_its_room_all_the_same(scheduler, full, alice, project):
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    attempt = full[1].attempts.get()
    sync(attempt.placements.get().node, ended(attempt), now=at(101))
    assert turn(scheduler, 102).started == 1
    full[1].refresh_from_db()
    urgent.refresh_from_db()
    assert (full[1].state, urgent.state) == (JobState.SUCCEEDED, JobState.STARTING)


def test_a_victim_that_is_cancelled_meanwhile_does_not_queue_again(scheduler, full, alice, project):
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    cancel_job(actor=alice, job=full[1], now=at(101))
    preempted(full[1], at(102))
    turn(scheduler, 103)
    full[1].refresh_from_db()
    urgent.refresh_from_db()
    assert (full[1].state, urgent.state) == (JobState.CANCELLED, JobState.STARTING)


def test_a_cancelled_beneficiary_gives_its_room_back(scheduler, full, alice, project):
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    cancel_job(actor=alice, job=urgent, now=at(101))
    preempted(full[1], at(102))
    turn(scheduler, 103)
    assert not Claim.objects.exists()
    full[1].refresh_from_db()
    assert full[1].state == JobState.STARTING


def test_a_room_that_does_not_come_free_in_time_is_given_up(scheduler, full, alice, project):
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    # Thirty seconds of grace for the victim, and two minutes.
    assert set(Claim.objects.values_list("expires_at", flat=True)) == {at(100 + 150)}
    Claim.objects.update(expires_at=at(120))
    assert turn(scheduler, 119).stopped == 0
    # It stops the other one instead.
    assert turn(scheduler, 121).stopped == 1
    assert urgent.events.filter(kind="room_lost").count() == 1
    assert urgent.events.filter(kind="room_ordered").count() == 2


@pytest.mark.parametrize("what", ["device", "node"])
def test_a_room_that_breaks_is_given_up(scheduler, full, root, alice, project, what):
    submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    claim = Claim.objects.select_related("node")[0]
    if what == "node":
        drain_node(actor=root, node=claim.node, now=at(101))
    else:
        Device.objects.filter(pk=claim.device_id).update(health=DeviceHealth.FAILED)
    turn(scheduler, 102)
    assert not Claim.objects.filter(node=claim.node).exists()


def test_nothing_is_ordered_without_the_lease(scheduler, full, alice, project, monkeypatch):
    submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))

    def slow(now, **more):
        SchedulerLease.objects.update(token=99, holder="other", expires_at=at(1000))
        return load_snapshot(now, **more)

    monkeypatch.setattr(loop_cycle, "load_snapshot", slow)
    assert not turn(scheduler, 100).has_lease
    assert not Claim.objects.exists()
    assert not Attempt.objects.filter(stop_reason=EndReason.PREEMPTED).exists()


def test_another_scheduler_finds_all_of_it_in_the_rows(scheduler, full, alice, project):
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    scheduler.release(at(101))
    heir = Scheduler(holder="heir", policy=TIERS)
    assert turn(heir, 102).stopped == 0
    preempted(full[1], at(103))
    assert turn(heir, 104).started == 1
    urgent.refresh_from_db()
    assert urgent.state == JobState.STARTING


def test_a_gang_gets_both_nodes_at_once(scheduler, full, alice, project):
    gang = submit(alice, project, tier="urgent", gpus_per_node=2, nodes=2, now=at(90))
    assert turn(scheduler, 100).stopped == 2
    preempted(full[0], at(101))
    assert turn(scheduler, 102).started == 0
    preempted(full[1], at(103))
    assert turn(scheduler, 104).started == 1
    assert [p.rank for p in gang.attempts.get().placements.order_by("rank")] == [0, 1]
    assert Allocation.objects.filter(released_at__isnull=True).count() == 4


def test_who_was_stopped_rests(scheduler, full, alice, project):
    """It starts again and is not stopped a second time before its rest is over."""
    urgent = submit(alice, project, tier="urgent", gpus_per_node=2, now=at(90))
    turn(scheduler, 100)
    preempted(full[1], at(101))
    turn(scheduler, 102)
    cancel_job(actor=alice, job=urgent, now=at(103))
    preempted(urgent, at(104))
    turn(scheduler, 105)
    again = full[1].attempts.latest("number")
    assert again.number == 2
    sync(again.placements.get().node, running(again), now=at(106))
    Attempt.objects.filter(job=full[0]).update(checkpoint_at=at(5))
    Attempt.objects.filter(pk=again.pk).update(started_at=at(106), checkpoint_at=at(299))
    submit(alice, project, tier="urgent", gpus_per_node=2, now=at(299))
    turn(scheduler, 300)
    # Stopping it would lose least by far, and yet the other one goes.
    assert Attempt.objects.get(stop_reason=EndReason.PREEMPTED, ended_at=None).job == full[0]


def test_under_shortest_first_rooms_are_made_too(scheduler, full, alice, project):
    scheduler.policy = Policy(order=Order.SHORTEST, preempts=True, min_run_s=60)
    short = submit(alice, project, gpus_per_node=2, time_limit="2m", now=at(90))
    assert turn(scheduler, 100).stopped == 1
    victim = Attempt.objects.get(stop_reason=EndReason.PREEMPTED)
    assert turn(scheduler, 101).stopped == 0
    preempted(victim.job, at(102))
    assert turn(scheduler, 103).started == 1
    short.refresh_from_db()
    assert short.state == JobState.STARTING


def test_it_costs_a_constant_number_of_statements(scheduler, full, alice, project):
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            load_snapshot(at(100)).with_running(rest_s=600, now=at(100))
        return len(seen)

    before = count()
    submit(alice, project, tier="urgent", gpus_per_node=2, nodes=2, now=at(90))
    turn(scheduler, 100)
    assert Claim.objects.count() == 4
    assert count() == before
