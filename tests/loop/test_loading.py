"""Database to Snapshot."""

import pytest

from scheduler.engine.checks import check_snapshot
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import NODE_STATES, NONE
from scheduler.loop.loading import Kept, load_snapshot, whole
from scheduler.models import Allocation, Attempt, Device, Node
from scheduler.services.nodes import create_pool, drain_node
from scheduler.services.queues import pause_queue
from scheduler.services.sharing.limits import set_quota
from scheduler.states import DeviceHealth, EndReason, JobState, NodeState, Tier
from tests import scenes
from tests.scenes import MODEL, NOON, at, ended, start, submit, sync

pytestmark = pytest.mark.django_db


def test_everything_the_engine_needs_is_there(cluster, alice, project):
    held = submit(alice, project, cpus=3, memory="2GiB", time_limit="10m")
    start(held, cluster.node(2), now=at(5))
    wants = submit(
        alice, project, tier="urgent", gpus_per_node=2, cpus=4, memory="8GiB", gpu_model=MODEL
    )
    loaded = load_snapshot(at(10))
    snapshot = loaded.snapshot
    check_snapshot(snapshot)
    assert snapshot.now_s == at(10).timestamp()
    assert snapshot.nodes.id.tolist() == [node.pk for node in cluster.nodes]
    assert snapshot.nodes.cpus_free.tolist() == [16, 13]
    assert snapshot.nodes.memory_free_mib.tolist() == [65536, 65536 - 2048]
    assert snapshot.devices.node.tolist() == [0, 0, 1, 1]
    assert snapshot.devices.holder.tolist() == [NONE, NONE, 0, NONE]
    assert snapshot.held.job.tolist() == [held.pk]
    assert snapshot.held.until_s.tolist() == [at(5 + 600).timestamp()]
    waiting = snapshot.waiting
    assert waiting.id.tolist() == [wants.pk]
    assert (waiting.tier[0], waiting.gpus_per_node[0], waiting.cpus[0]) == (Tier.URGENT, 2, 4)
    assert waiting.queued_at_s[0] == NOON.timestamp()
    assert snapshot.models[waiting.model[0]] == MODEL
    assert waiting.model[0] == snapshot.devices.model[0]
    assert loaded.wait_reasons == ("evaluating",)


def test_a_pool_that_comes_while_it_is_read_is_read_with_all_it_has(
    cluster, root, alice, project, monkeypatch
):
    """Between its first statement and the others; and what is wrong otherwise is still told."""
    first, again = whole._load_lines, []

    def lines():
        found = first()
        if not again:
            again.append(create_pool(actor=root, name="late"))
            Node.objects.filter(pk=cluster.node(2).pk).update(pool=again[0])
        return found

    monkeypatch.setattr(whole, "_load_lines", lines)
    kept = Kept()
    for _ in range(2):
        snapshot = load_snapshot(NOON, kept=kept).snapshot
        check_snapshot(snapshot)
        assert [snapshot.pools[row] for row in snapshot.nodes.pool] == ["default", "late"]
    monkeypatch.setattr(whole, "_load_lines", lambda: (first()[0], {}, {}, {}))
    with pytest.raises(KeyError):
        load_snapshot(NOON, kept=kept)


def test_time_runs_from_the_real_start(cluster, alice, project):
    job = submit(alice, project, time_limit="10m")
    Attempt.objects.filter(pk=start(job, cluster.node(1)).pk).update(started_at=at(30))
    assert load_snapshot(at(40)).snapshot.held.until_s[0] == at(630).timestamp()


def test_states_health_and_pauses_are_seen(cluster, root, alice, project):
    job = submit(alice, project)
    drain_node(actor=root, node=cluster.node(1), now=NOON)
    pause_queue(actor=root, queue=job.queue)
    Device.objects.filter(uuid="GPU-SIM-n2-0").update(health=DeviceHealth.SUSPECT)
    Device.objects.filter(uuid="GPU-SIM-n2-1").update(is_present=False)
    snapshot = load_snapshot(NOON).snapshot
    assert NODE_STATES[snapshot.nodes.state[0]] is NodeState.DRAINING
    assert snapshot.nodes.takes_work.tolist() == [False, True]
    assert snapshot.devices.is_healthy.tolist() == [True, True, False]
    assert snapshot.queue_is_paused.tolist() == [True]


def test_a_card_that_is_gone_counts_for_limits_while_it_is_held(
    cluster, root, alice, project, team
):
    set_quota(actor=root, owner=team, maximum=2)
    attempt = start(submit(alice, project), cluster.node(1))
    device = attempt.placements.get().allocations.get().device
    Device.objects.filter(pk=device.pk).update(is_present=False)
    kept = Kept()
    for _ in range(2):
        snapshot = load_snapshot(NOON, kept=kept).snapshot
        check_snapshot(snapshot)
        row = snapshot.devices.id.tolist().index(device.pk)
        assert not snapshot.devices.is_healthy[row] and len(snapshot.devices.id) == 4
        (cohorts,) = Gate(snapshot).cohorts.values()
        assert cohorts.held[0] == 1000
    Allocation.objects.update(released_at=at(1))
    assert device.pk not in load_snapshot(NOON, kept=kept).snapshot.devices.id


def test_nodes_of_several_pools_keep_their_devices_together(cluster, root):
    other = scenes.Cluster(root, create_pool(actor=root, name="another"), [])
    scenes.add_node(other, "a1", 3)
    scenes.add_node(cluster, "n3", 1)
    snapshot = load_snapshot(NOON).snapshot
    check_snapshot(snapshot)
    assert snapshot.devices.node.tolist() == [0, 0, 1, 1, 2, 3, 3, 3]
    assert [snapshot.pools[row] for row in snapshot.nodes.pool] == ["default"] * 3 + ["another"]


def test_a_platform_failure_marks_the_node_to_avoid(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(2))
    failed = ended(attempt, reason=EndReason.START_FAILED, exit_code=None)
    sync(cluster.node(2), failed, now=at(1))
    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    assert load_snapshot(at(2)).snapshot.waiting.avoid_node.tolist() == [1]


def test_the_number_of_queries_does_not_grow(cluster, alice, project, django_assert_num_queries):
    with django_assert_num_queries(19):
        load_snapshot(NOON)
    for number in range(1, 3):
        scenes.add_node(cluster, f"m{number}", 4)
        start(submit(alice, project, gpus_per_node=2), cluster.node(2 + number))
    for _ in range(10):
        submit(alice, project)
    with django_assert_num_queries(19):
        load_snapshot(NOON)


def test_an_empty_database_is_an_empty_snapshot(db):
    snapshot = load_snapshot(NOON).snapshot
    check_snapshot(snapshot)
    assert len(snapshot.waiting) == len(snapshot.nodes.id) == 0
