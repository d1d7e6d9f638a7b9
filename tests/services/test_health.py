"""Devices and nodes that something is wrong with: out by evidence, back by a check."""

from __future__ import annotations

import pytest

from scheduler.models import Device, Node
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.nodes import drain_node, resume_node
from scheduler.services.nodes.devices.by_hand import (
    act_on_device,
    check_device,
    quarantine_device,
    return_device,
)
from scheduler.services.nodes.quarantine import quarantine_by_hand
from scheduler.services.reaping import mark_silent
from scheduler.services.sites.following import follow_windows
from scheduler.services.sites.windows import plan_window
from scheduler.states import DeviceHealth, EndReason, JobState, NodeState, Trouble
from scheduler.wire.messages import DeviceCheck, TroubleReport
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, states, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def node(cluster):
    return cluster.node(1)


def gpu(node: Node, index: int = 0) -> Device:
    return Device.objects.select_related("node").get(node=node, index=index)


def wrong(device: Device, kind: str, detail: str = "", fence: int | None = None) -> TroubleReport:
    return TroubleReport(kind, device.uuid, detail, NOON.timestamp(), fence)


def tell(node: Node, *troubles: TroubleReport, now=NOON, **fields):
    node.refresh_from_db()
    return sync(node, now=now, troubles=troubles, **fields)


def test_a_broken_gpu_goes_out_of_service_with_its_evidence(node):
    tell(node, wrong(gpu(node), "xid", "Xid 79: GPU has fallen off the bus"))
    device = gpu(node)
    assert (device.health, device.trouble) == (DeviceHealth.QUARANTINED, Trouble.XID)
    assert "Xid 79" in device.health_reason
    event = node.events.latest("id")
    assert event.kind == "device_quarantined" and "GPU 0" in event.detail["reason"]
    assert gpu(node, 1).health == DeviceHealth.HEALTHY
    tell(node, wrong(gpu(node), "xid", "Xid 79: GPU has fallen off the bus"), now=at(10))
    assert node.events.filter(kind="device_quarantined").count() == 1


def test_who_runs_on_it_is_stopped_and_tried_again_for_free(node, alice, project):
    job = submit(alice, project, gpus_per_node=1)
    attempt = start(job, node)
    sync(node, running(attempt))
    reply = tell(node, wrong(gpu(node), "lost", fence=attempt.pk), now=at(5))
    assert [order.stop.reason for order in reply.assignments] == [EndReason.DEVICE_FAILED]
    sync(node, ended(attempt, reason=EndReason.EXIT_CODE, exit_code=137), now=at(6))
    job.refresh_from_db()
    attempt.refresh_from_db()
    assert attempt.end_reason == EndReason.DEVICE_FAILED
    assert (job.state, job.user_retries_used, job.free_retries_used) == (JobState.QUEUED, 0, 1)


def test_a_hot_gpu_lets_its_program_go_on(node, alice, project):
    job = submit(alice, project, gpus_per_node=1)
    attempt = start(job, node)
    sync(node, running(attempt))
    tell(node, wrong(gpu(node), "hot", "92 C"), now=at(5))
    job.refresh_from_db()
    assert job.state == JobState.RUNNING and gpu(node).health == DeviceHealth.QUARANTINED
    assert states(job)[-1] == JobState.RUNNING


def test_what_is_over_is_checked_and_returns(node):
    device = gpu(node)
    tell(node, wrong(device, "not_released", "process 7"))
    assert tell(node, now=at(20)).check == (device.uuid,)
    reply = sync(node, now=at(30), checks=(DeviceCheck(device.uuid, passed=True),))
    device.refresh_from_db()
    assert (device.health, device.trouble, device.check_at) == (DeviceHealth.HEALTHY, "", None)
    assert reply.check == () and not Node.objects.get(pk=node.pk).has_checks


def test_a_hot_gpu_cools_down_before_its_check(node):
    device = gpu(node)
    tell(node, wrong(device, "hot"))
    assert tell(node, now=at(10)).check == ()
    assert sync(node, now=at(69)).check == ()
    assert sync(node, now=at(71)).check == (device.uuid,)


def test_a_failed_check_keeps_it_out_and_is_made_again(node):
    device = gpu(node)
    tell(node, wrong(device, "not_released"))
    tell(node, now=at(1))
    sync(node, now=at(2), checks=(DeviceCheck(device.uuid, passed=False, detail="CUDA error 46"),))
    device.refresh_from_db()
    assert device.trouble == Trouble.CHECK_FAILED and "CUDA error 46" in device.health_reason
    assert tell(node, now=at(60)).check == ()
    assert sync(node, now=at(16 * 60)).check == (device.uuid,)


def test_a_check_nobody_asked_for_returns_nothing(node, root):
    device = quarantine_device(actor=root, device=gpu(node), reason="fan", now=NOON)
    sync(node, now=at(1), checks=(DeviceCheck(device.uuid, passed=True),))
    assert gpu(node).health == DeviceHealth.QUARANTINED


def test_a_held_gpu_is_not_tried_out(node, root, alice, project):
    attempt = start(submit(alice, project, gpus_per_node=1), node)
    sync(node, running(attempt))
    device = gpu(node)
    tell(node, wrong(device, "hot"), now=at(1))
    assert tell(node, now=at(2)).check == ()
    assert sync(node, now=at(600)).check == ()
    with pytest.raises(Conflict):
        check_device(actor=root, device=gpu(node), now=at(601))


def test_an_operator_decides_about_what_an_operator_took_out(node, root, alice):
    device = gpu(node)
    with pytest.raises(Forbidden):
        quarantine_device(actor=alice, device=device, reason="mine", now=NOON)
    with pytest.raises(Invalid):
        quarantine_device(actor=root, device=device, reason="  ", now=NOON)
    quarantine_device(actor=root, device=device, reason="rattling fan", now=NOON)
    assert tell(node, now=at(60)).check == ()
    assert gpu(node).health_reason == "rattling fan"
    check_device(actor=root, device=gpu(node), now=at(70))
    assert sync(Node.objects.get(pk=node.pk), now=at(71)).check == (device.uuid,)
    return_device(actor=root, device=gpu(node), now=at(72))
    assert gpu(node).health == DeviceHealth.HEALTHY
    with pytest.raises(Invalid):
        act_on_device(actor=root, device=gpu(node), action="explode")


@pytest.mark.parametrize("is_being_checked", [False, True])
def test_an_operator_keeps_out_what_is_out_by_its_own_evidence(node, root, is_being_checked):
    device = gpu(node)
    tell(node, wrong(device, "hot", "92 C"))
    if is_being_checked:
        tell(node, now=at(1))
    # As a page read it a while ago.
    quarantine_device(actor=root, device=device, reason="fan is gone", now=at(2))
    device = gpu(node)
    assert (device.trouble, device.check_at, device.health_reason) == ("", None, "fan is gone")
    event = node.events.latest("id")
    assert (event.kind, event.actor) == ("device_quarantined", root)
    assert event.detail["reason"] == "GPU 0: fan is gone"
    assert tell(node, now=at(100)).check == ()
    sync(node, now=at(101), checks=(DeviceCheck(device.uuid, passed=True),))
    assert gpu(node).health == DeviceHealth.QUARANTINED
    count = node.events.count()
    quarantine_device(actor=root, device=gpu(node), reason="again", now=at(102))
    assert (gpu(node).health_reason, node.events.count()) == ("fan is gone", count)


def test_what_has_failed_for_good_is_not_taken_out_again(node, root):
    Device.objects.filter(pk=gpu(node).pk).update(health=DeviceHealth.FAILED)
    with pytest.raises(Conflict, match="GPU 0 is failed"):
        quarantine_device(actor=root, device=gpu(node), reason="fan", now=NOON)


def test_a_full_disk_takes_the_node_out_and_back(node):
    tell(node, TroubleReport("disk_full", detail="3 MiB are left"))
    node.refresh_from_db()
    assert node.state == NodeState.QUARANTINED and "3 MiB" in node.state_reason
    sync(node, now=at(5))
    assert Node.objects.get(pk=node.pk).state == NodeState.QUARANTINED
    tell(node, now=at(10))
    node.refresh_from_db()
    assert (node.state, node.trouble) == (NodeState.READY, "")


def test_a_silent_node_comes_back_into_its_quarantine(node):
    tell(node, TroubleReport("disk_full", detail="3 MiB are left"))
    Node.objects.filter(pk=node.pk).update(state=NodeState.SILENT)
    node.refresh_from_db()
    sync(node, now=at(100))
    assert Node.objects.get(pk=node.pk).state == NodeState.QUARANTINED


def test_a_wrong_clock_takes_the_node_out_until_it_is_right(node):
    sync(node, now=at(1), sent_at=at(400).timestamp())
    node.refresh_from_db()
    assert (node.state, node.trouble) == (NodeState.QUARANTINED, Trouble.CLOCK_SKEW)
    assert "+399 s" in node.state_reason
    sync(node, now=at(2), sent_at=at(47).timestamp())
    node.refresh_from_db()
    assert node.state == NodeState.QUARANTINED
    sync(node, now=at(3), sent_at=at(4).timestamp())
    node.refresh_from_db()
    assert node.state == NodeState.READY


def test_an_operators_drain_outweighs_a_trouble(node, root):
    drain_node(actor=root, node=node, reason="move", now=NOON)
    tell(node, TroubleReport("disk_full"), now=at(1))
    node.refresh_from_db()
    assert node.state != NodeState.QUARANTINED
    tell(node, now=at(2))
    node.refresh_from_db()
    assert node.state in (NodeState.DRAINING, NodeState.DRAINED)


def _by_drain(node, root, project):
    drain_node(actor=root, node=node, reason="move", now=NOON)
    yield
    resume_node(actor=root, node=node, now=at(60))


def _by_hand(node, root, project):
    quarantine_by_hand(actor=root, node=node, reason="fan", now=NOON)
    yield
    resume_node(actor=root, node=node, now=at(60))


def _by_a_window(node, root, project):
    plan_window(actor=root, pool=node.pool, from_at=at(0), until_at=at(50), now=at(-60))
    follow_windows(now=NOON)
    yield
    follow_windows(now=at(60))


def _by_its_clock(node, root, project):
    sync(node, now=NOON, sent_at=at(400).timestamp())
    yield
    node.refresh_from_db()
    sync(node, now=at(60), sent_at=at(60).timestamp())


def _by_silence(node, root, project):
    drain_node(actor=root, node=node, reason="move", now=NOON)
    yield
    mark_silent(now=at(600))
    resume_node(actor=root, node=node, now=at(601))
    node.refresh_from_db()
    sync(node, now=at(602), sent_at=at(602).timestamp())


@pytest.mark.parametrize("out", [_by_drain, _by_hand, _by_a_window, _by_its_clock, _by_silence])
@pytest.mark.parametrize("is_over", [False, True])
def test_what_it_tells_while_it_is_out_for_something_else_counts_afterwards(
    node, root, project, out, is_over
):
    """Agents tell what changes, once."""
    acts, skew = out(node, root, project), 399 if out is _by_its_clock else 0
    next(acts)
    node.refresh_from_db()
    was = node.state
    full = TroubleReport("disk_full", detail="3 MiB are left")
    tell(node, full, now=at(1), sent_at=at(1 + skew).timestamp())
    node.refresh_from_db()
    assert node.state == was != NodeState.READY
    if is_over:
        tell(node, now=at(2), sent_at=at(2 + skew).timestamp())
    next(acts, None)
    node.refresh_from_db()
    if is_over:
        assert (node.state, node.trouble) == (NodeState.READY, "")
        return
    assert (node.state, node.trouble) == (NodeState.QUARANTINED, Trouble.DISK_FULL)
    assert "3 MiB" in node.state_reason
    tell(node, now=at(700), sent_at=at(700).timestamp())
    assert Node.objects.get(pk=node.pk).state == NodeState.READY


def test_who_resumes_it_from_just_that_knows_better(node, root):
    tell(node, TroubleReport("disk_full", detail="3 MiB are left"))
    resume_node(actor=root, node=node, now=at(1))
    assert Node.objects.get(pk=node.pk).state == NodeState.READY


def test_words_of_a_newer_agent_and_of_other_nodes_do_no_harm(node, cluster):
    other = gpu(cluster.node(2))
    tell(node, wrong(gpu(node), "melted", "a new word"), wrong(other, "lost"))
    assert gpu(node).trouble == Trouble.OTHER
    other.refresh_from_db()
    assert other.health == DeviceHealth.HEALTHY
