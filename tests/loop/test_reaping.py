"""What time alone brings about, through whole cycles."""

import pytest

from scheduler.models import Allocation, CycleRecord, Node
from scheduler.services.nodes import drain_node, resume_node
from scheduler.services.telemetry import prune_telemetry
from scheduler.states import AttemptState, EndReason, JobState, NodeState
from tests.scenes import at, ended, given_up_after, running, submit, sync

pytestmark = pytest.mark.django_db


def test_an_idle_node_is_drained_within_a_second(scheduler, cluster, root):
    node = cluster.node(1)
    scheduler.run_cycle(at(1))
    drain_node(actor=root, node=node, now=at(1.1))
    assert scheduler.run_cycle(at(1.2)).reaped == 0
    assert scheduler.run_cycle(at(2)).reaped == 1
    node.refresh_from_db()
    assert node.state == NodeState.DRAINED


def test_a_draining_node_waits_for_what_runs_on_it(scheduler, cluster, root, alice, project):
    job = submit(alice, project)
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    node = attempt.placements.get().node
    sync(node, running(attempt), now=at(2))
    drain_node(actor=root, node=node, now=at(3))
    scheduler.run_cycle(at(4))
    node.refresh_from_db()
    assert node.state == NodeState.DRAINING
    sync(node, ended(attempt), now=at(5))
    scheduler.run_cycle(at(6))
    node.refresh_from_db()
    assert node.state == NodeState.DRAINED


def test_an_assignment_nobody_took_up_goes_to_another_node(
    scheduler, cluster, alice, project, settings
):
    job = submit(alice, project)
    scheduler.run_cycle(at(1))
    first = job.attempts.get()
    refused = first.placements.get().node
    deadline_s = settings.TRAINYARD["start_deadline_s"]
    for node in cluster.nodes:
        sync(node, now=at(deadline_s))
    assert scheduler.run_cycle(at(deadline_s + 2)).reaped == 1
    sync(refused, ended(first, reason=EndReason.START_TIMEOUT), now=at(deadline_s + 3))
    scheduler.run_cycle(at(deadline_s + 4))
    first.refresh_from_db()
    assert (first.state, first.end_reason) == (AttemptState.ENDED, EndReason.START_TIMEOUT)
    job.refresh_from_db()
    assert (job.state, job.free_retries_used) == (JobState.STARTING, 1)
    assert job.attempts.latest("number").placements.get().node != refused


def test_what_a_node_that_was_never_heard_was_given_goes_to_another(
    scheduler, cluster, root, alice, project, settings
):
    """It was enrolled, and nobody started its agent: nobody there was told."""
    sync(cluster.node(2), now=at(0))
    drain_node(actor=root, node=cluster.node(2), now=at(0))
    job = submit(alice, project)
    scheduler.run_cycle(at(1))
    first = job.attempts.get()
    assert first.placements.get().node == cluster.node(1)
    resume_node(actor=root, node=cluster.node(2), now=at(2))
    late = settings.TRAINYARD["start_deadline_s"] + 2
    sync(cluster.node(2), now=at(late - 2))
    scheduler.run_cycle(at(late - 2))
    first.refresh_from_db()
    assert first.state == AttemptState.ASSIGNED
    scheduler.run_cycle(at(late))
    first.refresh_from_db()
    assert (first.state, first.end_reason) == (AttemptState.ENDED, EndReason.NODE_LOST)
    job.refresh_from_db()
    assert job.attempts.latest("number").placements.get().node == cluster.node(2)
    assert sync(Node.objects.get(name="n1"), now=at(late + 1)).assignments == ()


def test_a_log_that_never_comes_in_full_does_not_hold_the_end_for_ever(
    scheduler, cluster, alice, project, settings
):
    job = submit(alice, project)
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    node = attempt.placements.get().node
    sync(node, running(attempt), now=at(2))
    sync(node, ended(attempt, log_size=5000), now=at(3))
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    assert not Allocation.objects.filter(released_at__isnull=True).exists()
    scheduler.run_cycle(at(3 + settings.TRAINYARD["log_drain_s"] + 1))
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED
    assert job.events.get(kind="log_incomplete").detail == {"missing_bytes": 5000}


def test_a_job_far_beyond_its_limit_is_asked_to_stop(scheduler, cluster, alice, project):
    job = submit(alice, project, time_limit="1m")
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    node = attempt.placements.get().node
    sync(node, running(attempt), now=at(2))
    type(attempt).objects.filter(pk=attempt.pk).update(started_at=at(2))
    for second in (100, 124):
        sync(node, running(attempt), now=at(second))
        scheduler.run_cycle(at(second))
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_reason) == (AttemptState.STOPPING, EndReason.TIME_LIMIT)


def test_a_limit_that_ends_after_its_node_has_died_costs_the_job_nothing(
    scheduler, cluster, alice, project
):
    job = submit(alice, project, time_limit="10m")
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    sync(attempt.placements.get().node, running(attempt), now=at(2))
    type(attempt).objects.filter(pk=attempt.pk).update(started_at=at(2))
    scheduler.run_cycle(at(60))  # silent from here on
    scheduler.run_cycle(at(700))
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.RUNNING
    scheduler.run_cycle(at(60) + given_up_after())
    attempt.refresh_from_db()
    job.refresh_from_db()
    assert attempt.end_reason == EndReason.NODE_LOST
    assert job.free_retries_used == 1 and job.state in (JobState.QUEUED, JobState.STARTING)


def test_records_of_cycles_are_pruned_with_the_samples(scheduler, alice, project, settings):
    submit(alice, project)
    scheduler.run_cycle(at(1))
    keep_s = settings.TRAINYARD["sample_retention_s"]
    prune_telemetry(now=at(keep_s))
    assert CycleRecord.objects.count() == 1
    prune_telemetry(now=at(keep_s + 2))
    assert not CycleRecord.objects.exists()


def test_what_is_left_on_a_retired_node_is_given_up(scheduler, cluster, alice, project):
    """Nobody can speak for it any more, and retiring it is refused while it is seen there."""
    job = submit(alice, project)
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    node = attempt.placements.get().node
    Node.objects.filter(pk=node.pk).update(
        state=NodeState.RETIRED, token_hash=None, last_seen_at=at(0)
    )
    gone_s = given_up_after().total_seconds()
    scheduler.run_cycle(at(gone_s - 1))
    job.refresh_from_db()
    assert job.state == JobState.STOPPING
    scheduler.run_cycle(at(gone_s + 1))
    attempt.refresh_from_db()
    assert attempt.state == AttemptState.ENDED
    assert attempt.placements.get().detail == "the node was retired"
    assert not Allocation.objects.filter(placement__attempt=attempt, released_at=None).exists()
