"""From assignment to end: what nodes report and what follows."""

from __future__ import annotations

from decimal import Decimal

import pytest

from scheduler.models import Allocation, Attempt, UsageEntry
from scheduler.services.errors import LeaseLost
from scheduler.services.nodes.identity import AttemptOfAnother
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.states import AttemptState, EndReason, JobState, NodeState
from scheduler.wire.messages import AttemptReport
from tests import scenes
from tests.scenes import TOKEN, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


def test_a_job_runs_succeeds_and_is_charged_by_the_second(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1), now=at(10))
    reply = sync(cluster.node(1), now=at(11))
    assert [a.fence for a in reply.assignments] == [attempt.pk]
    assert reply.assignments[0].device_uuids == ("GPU-SIM-n1-0",)

    sync(cluster.node(1), running(attempt), now=at(12))
    job.refresh_from_db()
    assert job.state == JobState.RUNNING

    sync(cluster.node(1), ended(attempt), now=at(110))
    job.refresh_from_db()
    assert (job.state, job.exit_code, job.end_reason) == ("succeeded", 0, "completed")
    entry = UsageEntry.objects.get(job=job)
    assert (entry.gpu_seconds, entry.cost) == (100, Decimal("0.1"))
    assert scenes.states(job) == ["queued", "starting", "running", "succeeded"]


def test_a_short_job_may_report_only_its_end(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), ended(attempt, started_at=at(1).timestamp()), now=at(2))
    job.refresh_from_db()
    assert (job.state, job.started_at) == (JobState.SUCCEEDED, at(1))


def test_success_waits_for_the_last_byte_of_the_log(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    sync(cluster.node(1), ended(attempt, log_size=5), now=at(60))
    job.refresh_from_db()
    assert job.state == JobState.RUNNING
    assert not Allocation.objects.filter(released_at__isnull=True).exists()

    scenes.write_log(cluster.node(1), attempt, b"hel", b"lo")
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED


def test_repeated_and_late_reports_change_nothing_and_are_forgotten(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), ended(attempt))
    before = list(job.events.values_list("id", flat=True))
    reply = sync(
        cluster.node(1), ended(attempt, reason=EndReason.EXIT_CODE, exit_code=3), now=at(5)
    )
    job.refresh_from_db()
    assert reply.forget == (attempt.pk,)
    assert (job.state, list(job.events.values_list("id", flat=True))) == ("succeeded", before)
    assert UsageEntry.objects.count() <= 1


def test_a_node_cannot_speak_for_another_nodes_attempt(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    with pytest.raises(AttemptOfAnother):
        sync(cluster.node(2), ended(attempt))
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    cluster.node(2).refresh_from_db()
    assert cluster.node(2).state == NodeState.QUARANTINED


def test_ranks_of_a_gang_wait_for_the_port_of_rank_0(cluster, alice, project):
    job = submit(alice, project, nodes=2)
    attempt = start(job, cluster.node(1), cluster.node(2))
    assert sync(cluster.node(2)).assignments == ()
    before = sync(cluster.node(2)).revision
    port = AttemptReport(attempt.pk, 0, AttemptState.STARTING, master_port=29511)
    sync(cluster.node(1), port)
    reply = sync(cluster.node(2))
    assert reply.revision > before
    assert (reply.assignments[0].master_port, reply.assignments[0].rank) == (29511, 1)
    sync(cluster.node(1), running(attempt))
    job.refresh_from_db()
    assert job.state == JobState.STARTING
    sync(cluster.node(2), running(attempt, 1))
    job.refresh_from_db()
    assert job.state == JobState.RUNNING


def test_one_failing_rank_stops_the_others_and_gives_the_reason(cluster, alice, project):
    job = submit(alice, project, nodes=2)
    attempt = start(job, cluster.node(1), cluster.node(2))
    sync(cluster.node(1), running(attempt, master_port=29511))
    sync(cluster.node(2), running(attempt, 1))
    sync(cluster.node(2), ended(attempt, 1, reason=EndReason.EXIT_CODE, exit_code=3))
    reply = sync(cluster.node(1))
    assert reply.assignments[0].stop is not None
    killed = ended(attempt, reason=EndReason.EXIT_CODE, exit_code=-15)
    sync(cluster.node(1), killed, now=at(9))
    job.refresh_from_db()
    assert (job.state, job.end_reason, job.exit_code) == ("failed", "exit_code", 3)
    assert job.end_facts["rank"] == 1


def test_user_retries_are_used_up_and_the_place_is_kept(cluster, alice, project):
    job = submit(alice, project, retries=1)
    for number in (1, 2):
        attempt = start(job, cluster.node(1), now=at(number * 10))
        assert attempt.number == number
        sync(cluster.node(1), ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1))
        job.refresh_from_db()
    assert (job.state, job.user_retries_used, job.queued_at) == ("failed", 1, at(0))


def test_the_platforms_faults_are_free_of_charge_and_of_retries(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    sync(
        cluster.node(1),
        ended(attempt, reason=EndReason.DEVICE_FAILED, exit_code=None),
        now=at(3700),
    )
    job.refresh_from_db()
    assert (job.state, job.user_retries_used, job.free_retries_used) == ("queued", 0, 1)
    rows = UsageEntry.objects.filter(job=job)
    assert sum(r.cost for r in rows) == 0
    assert sum(r.gpu_seconds for r in rows) == 0
    assert rows.filter(kind="adjustment").count() == 2


def test_a_device_is_never_given_twice(cluster, alice, project):
    first, second = submit(alice, project), submit(alice, project)
    attempt = start(first, cluster.node(1))
    taken = attempt.placements.get().allocations.get().device_id
    clash = Start(second.pk, (PlacedOn(cluster.node(1).pk, 0, (taken,), 1, 2048),))
    assert start_attempts([clash], lease_token=TOKEN, now=at(1)) == []
    second.refresh_from_db()
    assert (second.state, Attempt.objects.filter(job=second).count()) == ("queued", 0)


def test_one_refused_start_does_not_take_the_others_with_it(cluster, alice, project):
    first, second, third = (submit(alice, project) for _ in range(3))
    taken = start(first, cluster.node(1)).placements.get().allocations.get().device_id
    free = cluster.node(2).devices.first().pk
    starts = [
        Start(second.pk, (PlacedOn(cluster.node(1).pk, 0, (taken,), 1, 2048),)),
        Start(third.pk, (PlacedOn(cluster.node(2).pk, 0, (free,), 1, 2048),)),
    ]
    assert start_attempts(starts, lease_token=TOKEN, now=at(1)) == [third.pk]


def test_a_scheduler_without_the_lease_writes_nothing(cluster, alice, project):
    job = submit(alice, project)
    with pytest.raises(LeaseLost):
        start(job, cluster.node(1), token=TOKEN - 1)
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_a_cancelled_job_that_still_finishes_has_succeeded(cluster, alice, project):
    from scheduler.services.jobs import cancel_job

    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    cancel_job(actor=alice, job=job, now=at(5))
    sync(cluster.node(1), ended(attempt), now=at(6))
    job.refresh_from_db()
    assert job.state == JobState.SUCCEEDED
