"""Segments follow every transition, in its transaction, and never leave a gap."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from scheduler.ledger.auditing import audit
from scheduler.ledger.segments import Bucket, Segment
from scheduler.models import Allocation, Attempt, Device, DeviceSegment, Node, NodeEvent
from scheduler.money import seconds_between
from scheduler.services import reaping
from scheduler.services.jobs import cancel_job
from scheduler.services.nodes import drain_node, resume_node, retire_node
from scheduler.services.nodes.devices.by_hand import quarantine_device, return_device
from scheduler.services.timeline.segments import follow_node, reconcile_segments
from scheduler.states import NodeState
from tests import scenes
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db
NOON_S = int(NOON.timestamp())


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=1)


def story(node: Node) -> list[tuple[str, int, int | None]]:
    """(bucket, start, end) in seconds after noon of the node's only device."""
    rows = DeviceSegment.objects.filter(device__node=node)
    return [
        (r.bucket, r.start_s - NOON_S, None if r.end_s is None else r.end_s - NOON_S) for r in rows
    ]


def check_partition(until: float = 100_000) -> None:
    rows = DeviceSegment.objects.order_by("device_id", "start_s", "id")
    found = audit(
        (Segment(str(r.device_id), r.start_s, r.end_s, Bucket(r.bucket)) for r in rows),
        NOON_S,
        NOON_S + int(until),
    )
    assert found.findings == []


def test_a_job_from_assignment_to_its_end(cluster, alice, project):
    node = cluster.node(1)
    job = scenes.submit(alice, project)
    attempt = scenes.start(job, node, now=at(10.9))
    scenes.sync(node, scenes.running(attempt), now=at(15))
    scenes.sync(node, scenes.ended(attempt), now=at(75.2))
    assert story(node) == [
        ("free", 0, 10),
        ("overhead", 10, 15),
        ("run", 15, 75),
        ("free", 75, None),
    ]
    held = DeviceSegment.objects.filter(attempt=attempt)
    assert {(s.project_id, s.flavour, s.pool_id) for s in held} == {
        (project.pk, scenes.MODEL, cluster.pool.pk)
    }
    check_partition()


def test_stopping_is_overhead(cluster, alice, project):
    node = cluster.node(1)
    job = scenes.submit(alice, project)
    attempt = scenes.start(job, node, now=at(10))
    scenes.sync(node, scenes.running(attempt), now=at(20))
    cancel_job(actor=alice, job=job, now=at(50))
    assert story(node)[-2:] == [("run", 20, 50), ("overhead", 50, None)]


def test_a_node_falls_silent_is_lost_and_comes_back(cluster, alice, project):
    node = cluster.node(1)
    attempt = scenes.start(scenes.submit(alice, project), node, now=at(10))
    scenes.sync(node, scenes.running(attempt), now=at(20))
    Node.objects.update(last_seen_at=at(20))
    reaping.mark_silent(now=at(200))
    reaping.mark_lost(now=at(9_000))
    scenes.sync(Node.objects.get(pk=node.pk), now=at(9_500))
    assert story(node) == [
        ("free", 0, 10),
        ("overhead", 10, 20),
        ("run", 20, 200),
        ("unreachable", 200, 9_000),
        ("down", 9_000, 9_500),
        ("free", 9_500, None),
    ]
    assert story(cluster.node(2)) == [("free", 0, 200), ("down", 200, None)]
    check_partition()


def test_a_drained_node_and_a_retired_one(cluster, root):
    node = cluster.node(1)
    drain_node(actor=root, node=node, now=at(100))
    reaping.finish_drains(now=at(101))
    resume_node(actor=root, node=node, now=at(160))
    retire_node(actor=root, node=node, now=at(300))
    assert story(node) == [
        ("free", 0, 100),
        ("drained", 100, 160),
        ("free", 160, 300),
        ("out", 300, None),
    ]
    check_partition()


def test_a_card_that_is_gone_is_down(cluster):
    node = cluster.node(1)
    scenes.sync(node, devices=(), now=at(50))
    assert story(node) == [("free", 0, 50), ("down", 50, None)]


def test_a_card_in_quarantine_is_out_of_use_and_comes_back(cluster, root):
    node = cluster.node(1)
    card = Device.objects.select_related("node").get(node=node)
    quarantine_device(actor=root, device=card, reason="hot", now=at(40))
    return_device(actor=root, device=Device.objects.get(pk=card.pk), now=at(90))
    assert story(node) == [("free", 0, 40), ("quarantine", 40, 90), ("free", 90, None)]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_the_buckets_add_up(root, alice, project, seed):
    """F1, F3 on real rows: random days of a cluster, its nodes silent, lost, drained and back."""
    chance = random.Random(seed)
    cluster = scenes.build_cluster(root, nodes=3, gpus=2)
    clock = 0.0
    for _ in range(25):
        clock += chance.choice((0, 0.4, 1, 7.7, 200, 5_000))
        node = Node.objects.get(pk=chance.choice(cluster.nodes).pk)
        something(chance, node, root, alice, project, clock)
    rows = list(DeviceSegment.objects.order_by("device_id", "start_s", "id"))
    check_partition(clock + 50)
    for attempt in Attempt.objects.all():
        held = sum(
            seconds_between(a.acquired_at, a.released_at or at(clock + 50))
            for a in Allocation.objects.filter(placement__attempt=attempt)
        )
        counted = [
            (NOON_S + int(clock + 50) if r.end_s is None else r.end_s) - r.start_s
            for r in rows
            if r.attempt_id == attempt.pk
        ]
        assert sum(counted) == held


def something(chance, node, root, alice, project, clock) -> None:
    """One thing that may happen to a node and its jobs; what is refused is fine too."""
    now = at(clock)
    live = [p.attempt for p in node.placements.filter(ended_at__isnull=True)]
    what = chance.randrange(7)
    if what <= 1 and node.state == NodeState.READY and not live:
        job = scenes.submit(alice, project, now=now, gpus_per_node=chance.choice((1, 2)))
        scenes.start(job, node, now=now)
    elif what == 2 and live:
        scenes.sync(node, scenes.running(live[0]), now=now)
    elif what == 3 and live:
        scenes.sync(node, scenes.ended(live[0]), now=now)
    elif what == 4:
        drain_node(actor=root, node=node, now=now)
        reaping.finish_drains(now=now)
    elif what == 5:
        resume_node(actor=root, node=node, now=now)
    else:
        # Long silent, perhaps lost, perhaps heard again at once.
        Node.objects.filter(pk=node.pk).update(last_seen_at=at(clock - chance.choice((5, 99_999))))
        reaping.mark_silent(now=now)
        NodeEvent.objects.filter(node=node, kind="silent").update(at=at(0))
        reaping.mark_lost(now=now)
        if chance.random() < 0.6:
            scenes.sync(Node.objects.get(pk=node.pk), now=now)


def test_what_is_rolled_back_leaves_no_segment(cluster, root):
    node = cluster.node(1)
    with pytest.raises(RuntimeError), transaction.atomic():
        drain_node(actor=root, node=node, now=at(100))
        raise RuntimeError
    assert story(node) == [("free", 0, None)]


def test_a_change_that_changes_nothing_writes_nothing(cluster, django_assert_num_queries):
    node = cluster.node(1)
    locks = int(connection.features.has_select_for_update)
    with django_assert_num_queries(1 + locks):
        follow_node(node.pk, now=at(5), cause="again")
    assert reconcile_segments(now=at(6)) == 0


def test_a_change_missed_by_a_service_is_found_and_said(cluster, caplog):
    Device.objects.filter(node=cluster.node(1)).update(is_present=False)
    assert reconcile_segments(now=at(60)) == 1
    assert "did not say what was true" in caplog.text
    assert story(cluster.node(1))[-1] == ("down", 60, None)


def test_a_clock_that_went_back_makes_no_negative_time(cluster, root):
    node = cluster.node(1)
    drain_node(actor=root, node=node, now=NOON - timedelta(seconds=30))
    assert story(node) == [("free", 0, 0), ("drained", 0, None)]
    check_partition()


def test_the_database_refuses_a_second_open_segment(cluster):
    only = DeviceSegment.objects.filter(device__node=cluster.node(1)).get()
    only.pk, only.start_s = None, NOON_S + 5
    with pytest.raises(IntegrityError), transaction.atomic():
        only.save(force_insert=True)


def test_a_segment_is_ended_once_and_stays(cluster, root):
    drain_node(actor=root, node=cluster.node(1), now=at(100))
    ended = DeviceSegment.objects.filter(end_s__isnull=False)
    for change in (lambda: ended.update(end_s=NOON_S + 9), ended.delete):
        with pytest.raises(DatabaseError, match="only ever ended"), transaction.atomic():
            change()


@pytest.mark.postgres
class TestSecondLine:
    """What PostgreSQL refuses by itself."""

    def test_segments_of_a_device_never_overlap(self, cluster, root):
        drain_node(actor=root, node=cluster.node(1), now=at(100))
        row = DeviceSegment.objects.filter(device__node=cluster.node(1)).first()
        row.pk, row.start_s, row.end_s = None, NOON_S + 40, NOON_S + 60
        with pytest.raises(IntegrityError, match="never_overlap"), transaction.atomic():
            row.save(force_insert=True)
