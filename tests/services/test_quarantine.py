"""A node that an operator takes out of service stays out until an operator returns it."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent
from scheduler.models import Node
from scheduler.services.calling.together import Call, sync_nodes
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.nodes import drain_node, resume_node
from scheduler.services.nodes.quarantine import quarantine_by_hand
from scheduler.services.reaping import mark_lost, mark_silent
from scheduler.services.sites.following import follow_windows
from scheduler.services.sites.windows import plan_window
from scheduler.states import JobState, NodeState, Trouble
from scheduler.wire.messages import SyncRequest, TroubleReport
from tests import scenes
from tests.scenes import NOON, at, running, start, submit, sync

pytestmark = pytest.mark.django_db

OUT = (NodeState.QUARANTINED, Trouble.BY_HAND)


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, nodes=1, gpus=2).node(1)


def now_is(node: Node) -> tuple[str, str]:
    node.refresh_from_db()
    return node.state, node.trouble


def test_what_runs_goes_on_and_it_returns_by_an_operator_alone(node, root, alice, project):
    job = submit(alice, project, gpus_per_node=1)
    attempt = start(job, node)
    sync(node, running(attempt))
    quarantine_by_hand(actor=root, node=node, reason=" rattling  fan ", now=at(1))
    assert now_is(node) == OUT and node.state_reason == "rattling fan"
    reply = sync(node, running(attempt), now=at(5), troubles=())
    assert not any(order.stop for order in reply.assignments)
    job.refresh_from_db()
    assert job.state == JobState.RUNNING and now_is(node) == OUT
    resume_node(actor=root, node=node, now=at(6))
    assert now_is(node) == (NodeState.READY, "")
    told = AuditEvent.objects.filter(action__in=("node.quarantine", "node.resume")).order_by("pk")
    assert [(event.action, event.actor_name) for event in told] == [
        ("node.quarantine", "root"),
        ("node.resume", "root"),
    ]


def test_a_silence_does_not_end_it(node, root):
    quarantine_by_hand(actor=root, node=node, reason="fan", now=NOON)
    Node.objects.filter(pk=node.pk).update(state=NodeState.SILENT)
    node.refresh_from_db()
    sync(node, now=at(100))
    assert now_is(node) == OUT


def _drained(root, node):
    drain_node(actor=root, node=node, reason="firmware", now=NOON)
    return NodeState.DRAINING, "firmware"


def _by_hand(root, node):
    quarantine_by_hand(actor=root, node=node, reason="fan", now=NOON)
    return NodeState.QUARANTINED, "fan"


def _by_its_disk(root, node):
    sync(node, now=NOON, troubles=(TroubleReport("disk_full", detail="3 MiB are left"),))
    return NodeState.QUARANTINED, "the disk is full (3 MiB are left)"


def _by_a_window(root, node):
    plan_window(
        actor=root,
        pool=node.pool,
        from_at=NOON,
        until_at=at(7200),
        reason="switch",
        now=at(-60),
    )
    follow_windows(now=NOON)
    return NodeState.DRAINING, "maintenance until 20 Nov 2026, 14:00 UTC: switch"


def _hear(node, at_s, together):
    node.refresh_from_db()
    if together:
        sent = at(at_s).timestamp()
        said = SyncRequest(1, "0.1.0", "agent-1", "boot-1", 0, 0, sent)
        sync_nodes([Call(node, said, at(at_s))], now=at(at_s))
    else:
        sync(node, now=at(at_s))


@pytest.mark.parametrize("out", [_drained, _by_hand, _by_its_disk, _by_a_window])
@pytest.mark.parametrize("together", [False, True])
def test_after_a_silence_it_is_out_for_what_it_was_before(node, root, out, together):
    sync(node, now=at(-60))
    node.refresh_from_db()
    was = out(root, node)
    assert (mark_silent(now=at(600)), mark_lost(now=at(600))) == (1, 0)
    node.refresh_from_db()
    assert node.state_reason.startswith("nothing heard")
    _hear(node, 601, together)
    node.refresh_from_db()
    assert (node.state, node.state_reason) == was


def test_who_was_put_back_by_hand_during_maintenance_stays_so_after_a_silence(node, root):
    _by_a_window(root, node)
    resume_node(actor=root, node=node, now=at(1))
    mark_silent(now=at(600))
    node.refresh_from_db()
    sync(node, now=at(601))
    assert now_is(node) == (NodeState.READY, "")


@pytest.mark.parametrize("is_drained_too", [True, False])
@pytest.mark.parametrize("together", [True, False])
def test_who_is_put_back_while_silent_takes_work_once_heard(node, root, is_drained_too, together):
    sync(node, now=at(-60))
    node.refresh_from_db()
    _by_a_window(root, node)
    if is_drained_too:
        drain_node(actor=root, node=node, reason="fan", now=at(1))
    mark_silent(now=at(600))
    resume_node(actor=root, node=node, now=at(601))
    resume_node(actor=root, node=node, now=at(602))
    told = node.events.get(kind="resume")
    assert (told.actor, told.detail) == (root, {"reason": "once it is heard"})
    _hear(node, 603, together)
    assert now_is(node) == (NodeState.READY, "")
    drain_node(actor=root, node=node, reason="firmware", now=at(604))
    mark_silent(now=at(1200))
    _hear(node, 1201, together)
    assert (now_is(node)[0], node.state_reason) == (NodeState.DRAINING, "firmware")


def test_of_a_silent_node_that_was_in_service_a_resume_says_nothing(node, root):
    sync(node, now=NOON)
    mark_silent(now=at(600))
    node.refresh_from_db()
    assert resume_node(actor=root, node=node, now=at(601)).state == NodeState.SILENT
    assert not node.events.filter(kind="resume").exists()


def test_it_outlives_a_trouble_that_ends_by_itself(node, root):
    sync(node, now=at(1), troubles=(TroubleReport("disk_full", detail="3 MiB are left"),))
    assert now_is(node) == (NodeState.QUARANTINED, Trouble.DISK_FULL)
    quarantine_by_hand(actor=root, node=node, reason="disk to be replaced", now=at(2))
    sync(node, now=at(10), troubles=())
    assert now_is(node) == OUT and node.state_reason == "disk to be replaced"


def test_it_takes_the_place_of_a_drain(node, root):
    drain_node(actor=root, node=node, reason="firmware", now=at(1))
    quarantine_by_hand(actor=root, node=node, reason="firmware failed", now=at(2))
    assert now_is(node) == OUT and node.drain_requested_at is None


def test_twice_is_once(node, root):
    for words in ("fan", "again"):
        quarantine_by_hand(actor=root, node=node, reason=words, now=at(1))
    node.refresh_from_db()
    assert node.state_reason == "fan" and node.events.filter(kind="quarantine").count() == 1


def test_who_may_not_and_what_cannot(node, root, alice):
    with pytest.raises(Forbidden):
        quarantine_by_hand(actor=alice, node=node, reason="mine", now=NOON)
    with pytest.raises(Invalid):
        quarantine_by_hand(actor=root, node=node, reason="  ", now=NOON)
    assert now_is(node) == (NodeState.READY, "")
    Node.objects.filter(pk=node.pk).update(state=NodeState.SILENT)
    with pytest.raises(Conflict) as refused:
        quarantine_by_hand(actor=root, node=node, reason="fan", now=NOON)
    assert "Drain it" in refused.value.detail
