"""How a decision becomes fact."""

from dataclasses import replace

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import DEFAULT_POLICY
from scheduler.loop import committing
from scheduler.loop import cycle as loop_cycle
from scheduler.loop.cycle import Scheduler
from scheduler.loop.lease import LEASE_S
from scheduler.loop.loading import load_snapshot
from scheduler.loop.planning import poisoned
from scheduler.loop.planning.poisoned import plan_or_hold
from scheduler.models import Allocation, CycleRecord, Job, SchedulerLease
from scheduler.services.nodes import drain_node
from scheduler.services.queues import pause_queue
from scheduler.services.transitions import move_job
from scheduler.states import EndReason, JobState, NodeState, WaitReason
from tests.scenes import NOON, at, ended, given_up_after, running, states, submit, sync

pytestmark = pytest.mark.django_db


def test_a_waiting_job_starts_on_free_devices(scheduler, alice, project):
    job = submit(alice, project, gpus_per_node=2)
    outcome = scheduler.run_cycle(at(1))
    assert (outcome.has_lease, outcome.started, outcome.waiting) == (True, 1, 0)
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    (placement,) = job.attempts.get().placements.all()
    assert placement.allocations.filter(released_at__isnull=True).count() == 2


def test_a_gang_gets_distinct_nodes_and_the_next_one_a_reason(scheduler, alice, project):
    gang = submit(alice, project, nodes=2, gpus_per_node=2)
    later = submit(alice, project, gpus_per_node=1, now=at(1))
    scheduler.run_cycle(at(2))
    placements = gang.attempts.get().placements.order_by("rank")
    assert [p.node.name for p in placements] == ["n1", "n2"]
    later.refresh_from_db()
    assert (later.state, later.wait_reason) == (JobState.QUEUED, WaitReason.CAPACITY_BUSY)
    assert later.wait_facts["need"] == "1 GPU"
    assert (later.wait_facts["free"], later.wait_facts["total"]) == (0, 4)
    assert later.wait_checked_at == at(2)


def test_freed_devices_go_to_the_job_that_waits(scheduler, alice, project, cluster):
    first = submit(alice, project, gpus_per_node=2, nodes=2)
    second = submit(alice, project, gpus_per_node=2, now=at(1))
    scheduler.run_cycle(at(2))
    attempt = first.attempts.get()
    for rank in (0, 1):
        sync(cluster.node(rank + 1), running(attempt, rank), now=at(3))
        sync(cluster.node(rank + 1), ended(attempt, rank), now=at(4))
    assert scheduler.run_cycle(at(5)).started == 1
    second.refresh_from_db()
    assert second.state == JobState.STARTING


def test_what_was_free_in_the_snapshot_but_is_taken_is_dropped_alone(
    scheduler, alice, project, monkeypatch
):
    first, second = (submit(alice, project, gpus_per_node=2, now=at(n)) for n in (0, 1))
    stale = load_snapshot(at(2))
    assert scheduler.run_cycle(at(2)).started == 2
    for job in (first, second):
        Allocation.objects.filter(placement__attempt__job=job, placement__node__name="n2").update(
            released_at=at(3)
        )
    third, fourth = (submit(alice, project, gpus_per_node=2, now=at(n)) for n in (4, 5))
    # The plan is made on the cluster as it was before: both nodes free.
    snapshot = load_snapshot(at(6)).snapshot
    fresh = replace(
        load_snapshot(at(6)), snapshot=replace(stale.snapshot, waiting=snapshot.waiting)
    )
    monkeypatch.setattr(loop_cycle, "load_snapshot", lambda now, **more: fresh)
    outcome = scheduler.run_cycle(at(7))
    assert (outcome.started, outcome.dropped) == (1, 1)
    kept = {third.pk, fourth.pk} - set(
        Job.objects.filter(state=JobState.QUEUED).values_list("pk", flat=True)
    )
    assert len(kept) == 1
    held = Allocation.objects.filter(released_at__isnull=True).values_list("device_id", flat=True)
    assert len(held) == len(set(held)) == 4


def test_a_node_drained_after_the_plan_gets_nothing(
    scheduler, alice, project, cluster, root, monkeypatch
):
    job = submit(alice, project, gpus_per_node=2, nodes=2)
    loaded = load_snapshot(at(1))
    drain_node(actor=root, node=cluster.node(2), now=at(1))
    monkeypatch.setattr(loop_cycle, "load_snapshot", lambda now, **more: loaded)
    outcome = scheduler.run_cycle(at(2))
    assert (outcome.started, outcome.dropped) == (0, 1)
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    assert not Allocation.objects.exists()


def test_only_the_lease_holder_acts(scheduler, alice, project):
    submit(alice, project)
    other = Scheduler(holder="other")
    assert other.run_cycle(at(1)).has_lease
    second = submit(alice, project, now=at(2))
    assert not scheduler.run_cycle(at(2)).has_lease
    second.refresh_from_db()
    assert second.state == JobState.QUEUED
    other.release(at(3))
    assert scheduler.run_cycle(at(3)).started == 1


def test_a_holder_that_lost_its_lease_meanwhile_writes_nothing(
    scheduler, alice, project, monkeypatch
):
    job = submit(alice, project)
    real = loop_cycle.load_snapshot

    def slow(now, **more):
        SchedulerLease.objects.update(token=99, holder="other", expires_at=at(1000))
        return real(now, **more)

    monkeypatch.setattr(loop_cycle, "load_snapshot", slow)
    assert not scheduler.run_cycle(at(1)).has_lease
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    assert not Allocation.objects.exists()


def test_a_failed_cycle_keeps_the_lease_and_the_next_one_works(
    scheduler, alice, project, monkeypatch
):
    submit(alice, project)
    with monkeypatch.context() as patched:
        patched.setattr(loop_cycle, "load_snapshot", lambda now, **more: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            scheduler.run_cycle(at(1))
    assert scheduler.lease is not None
    assert scheduler.run_cycle(at(2)).started == 1


def test_a_job_with_nonsense_in_its_row_is_held_and_the_others_start(scheduler, alice, project):
    bad, good = submit(alice, project), submit(alice, project)
    # The product never writes such a spec; somebody with a database console might.
    Job.objects.filter(pk=bad.pk).update(spec={"stop": {}})
    assert scheduler.run_cycle(at(1)).started == 1
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.state, bad.wait_reason) == (JobState.HELD, WaitReason.INVALID_SPEC)
    assert "grace" in bad.wait_facts["detail"]
    assert good.state == JobState.STARTING
    assert states(bad)[-1] == "held"


def test_jobs_that_the_engine_refuses_are_held_by_name(cluster, alice, project):
    jobs = [submit(alice, project) for _ in range(5)]
    snapshot = load_snapshot(NOON).snapshot
    broken = snapshot.waiting.queued_at_s.copy()
    broken[[1, 3]] = float("nan")
    snapshot = replace(snapshot, waiting=replace(snapshot.waiting, queued_at_s=broken))
    plan = plan_or_hold(snapshot, DEFAULT_POLICY, now=at(1))
    held = set(Job.objects.filter(state=JobState.HELD).values_list("pk", flat=True))
    assert held == {jobs[1].pk, jobs[3].pk}
    assert {s.job for s in plan.starts} | {w.job for w in plan.iter_waits()} == {
        job.pk for job in jobs
    } - held


def test_jobs_that_break_the_engine_are_found_by_halving(cluster, alice, project, monkeypatch):
    jobs = [submit(alice, project) for _ in range(7)]
    poison = {jobs[2].pk, jobs[6].pk}

    def fragile(snapshot, policy):
        if poison & set(snapshot.waiting.id.tolist()):
            raise ArithmeticError("planted")
        return plan_cycle(snapshot, policy)

    monkeypatch.setattr(poisoned, "plan_cycle", fragile)
    plan_or_hold(load_snapshot(NOON).snapshot, DEFAULT_POLICY, now=at(1))
    held = Job.objects.filter(state=JobState.HELD)
    assert set(held.values_list("pk", flat=True)) == poison
    assert "planted" in held[0].wait_facts["detail"]


def test_an_engine_that_fails_without_jobs_blames_none(cluster, alice, project, monkeypatch):
    submit(alice, project)
    monkeypatch.setattr(poisoned, "plan_cycle", lambda snapshot, policy: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plan_or_hold(load_snapshot(NOON).snapshot, DEFAULT_POLICY, now=at(1))
    assert not Job.objects.filter(state=JobState.HELD).exists()


def test_reasons_are_written_when_they_change_and_not_again(scheduler, alice, project, root):
    for number in range(3):
        submit(alice, project, gpus_per_node=2, now=at(number))
    job = Job.objects.order_by("pk").last()
    assert scheduler.run_cycle(at(10)).reasons == 1
    assert scheduler.run_cycle(at(11)).reasons == 0
    job.refresh_from_db()
    assert job.wait_checked_at == at(10)
    pause_queue(actor=root, queue=job.queue)
    assert scheduler.run_cycle(at(12)).reasons == 1
    job.refresh_from_db()
    assert job.wait_reason == WaitReason.POOL_CLOSED


def test_a_job_that_comes_back_to_the_queue_gets_its_reason_again(scheduler, alice, project):
    submit(alice, project, gpus_per_node=2, nodes=2)
    job = submit(alice, project, gpus_per_node=2, now=at(1))
    scheduler.run_cycle(at(2))
    job.refresh_from_db()
    for state in (JobState.HELD, JobState.QUEUED):
        move_job(job, state, now=at(3), kind="moved")
    assert job.wait_reason == WaitReason.EVALUATING
    scheduler.run_cycle(at(4))
    job.refresh_from_db()
    assert job.wait_reason == WaitReason.CAPACITY_BUSY


def test_a_cycle_is_recorded_only_if_something_happened(scheduler, alice, project):
    scheduler.run_cycle(at(1))
    assert not CycleRecord.objects.exists()
    submit(alice, project)
    scheduler.run_cycle(at(2))
    scheduler.run_cycle(at(3))
    (record,) = CycleRecord.objects.all()
    assert (record.at, record.started, record.waiting) == (at(2), 1, 0)
    assert record.duration_ms > record.load_ms + record.plan_ms + record.commit_ms > 0
    assert record.statements > 5


def test_time_alone_loses_a_node_and_its_job_starts_elsewhere(scheduler, alice, project, cluster):
    job = submit(alice, project)
    scheduler.run_cycle(at(1))
    attempt = job.attempts.get()
    node = attempt.placements.get().node
    sync(node, running(attempt), now=at(2))
    other = next(n for n in cluster.nodes if n.pk != node.pk)
    lost_at = 2 + given_up_after().total_seconds() + 1
    sync(other, now=at(lost_at - 1))
    scheduler.run_cycle(at(60))
    node.refresh_from_db()
    assert node.state == NodeState.SILENT
    assert scheduler.run_cycle(at(lost_at)).reaped
    node.refresh_from_db()
    job.refresh_from_db()
    assert node.state == NodeState.LOST
    assert (job.state, job.attempts.count()) == (JobState.STARTING, 2)
    assert job.attempts.latest("number").placements.get().node == other
    attempt.refresh_from_db()
    assert attempt.end_reason == EndReason.NODE_LOST


def test_the_lease_is_kept_over_many_cycles(scheduler, cluster):
    for second in range(3 * LEASE_S):
        assert scheduler.run_cycle(at(second + 1)).has_lease
    assert SchedulerLease.objects.get().expires_at > at(3 * LEASE_S)


def test_an_idle_cycle_costs_a_constant_number_of_queries(
    scheduler, alice, project, django_assert_max_num_queries
):
    scheduler.run_cycle(at(1))
    with django_assert_max_num_queries(24):
        scheduler.run_cycle(at(1.5))
    for number in range(20):
        submit(alice, project, gpus_per_node=2, now=at(number))
    scheduler.run_cycle(at(30))
    with django_assert_max_num_queries(24):
        scheduler.run_cycle(at(30.5))


def test_a_long_queue_is_explained_bit_by_bit_from_the_front(
    scheduler, alice, project, monkeypatch
):
    monkeypatch.setattr(committing, "MAX_REASONS", 2)
    # A slow cycle dates its starts later, and with them what is foreseen.
    monkeypatch.setattr(committing, "MAX_FACTS", 0)
    jobs = [submit(alice, project, gpus_per_node=2, nodes=2, now=at(n)) for n in range(6)]
    assert scheduler.run_cycle(at(10)).reasons == 2
    # A second has to pass before more is written; starts are never put off like this.
    assert scheduler.run_cycle(at(10.5)).reasons == 0
    assert scheduler.run_cycle(at(11)).reasons == 2
    unexplained = Job.objects.filter(wait_reason=WaitReason.EVALUATING, state=JobState.QUEUED)
    assert list(unexplained) == [jobs[5]]


def test_many_starts_are_committed_in_batches(scheduler, alice, project, monkeypatch):
    monkeypatch.setattr(committing, "MAX_STARTS", 3)
    for _ in range(4):
        submit(alice, project)
    assert scheduler.run_cycle(at(1)).started == 4
