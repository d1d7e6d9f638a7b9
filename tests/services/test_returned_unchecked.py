"""New troubles count: of a GPU that was returned on an operator's word, or is out for less."""

from __future__ import annotations

import pytest

from scheduler.models import Device, Node
from scheduler.services.nodes.devices.by_hand import quarantine_device, return_device
from scheduler.states import DeviceHealth, Trouble
from scheduler.wire.messages import DeviceCheck, TroubleReport
from tests import scenes
from tests.scenes import NOON, at, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, nodes=1, gpus=2).node(1)


def gpu(node: Node, index: int = 0) -> Device:
    return Device.objects.select_related("node").get(node=node, index=index)


def wrong(device: Device, kind: str, since: float = 0.0) -> TroubleReport:
    return TroubleReport(kind, device.uuid, "", NOON.timestamp() + since)


def tell(node: Node, *troubles: TroubleReport, after: float, **said):
    node.refresh_from_db()
    return sync(node, now=at(after), troubles=troubles, **said)


def test_what_was_overruled_is_told_again_in_vain_and_what_is_new_counts(
    node, root, alice, project
):
    """Agents tell the whole list: after their start, and when another card has something."""
    old = wrong(gpu(node), "xid"), wrong(gpu(node), "ecc", 0.5)
    tell(node, old[0], after=1)
    tell(node, *old, after=2)
    return_device(actor=root, device=gpu(node), now=at(3))
    attempt = start(submit(alice, project, gpus_per_node=1), node)
    sync(node, running(attempt), now=at(5))
    reply = tell(node, *old, wrong(gpu(node, 1), "hot", 6), after=6)
    assert gpu(node).health == DeviceHealth.HEALTHY
    assert gpu(node, 1).health == DeviceHealth.QUARANTINED
    assert [order.stop for order in reply.assignments] == [None]
    reply = tell(node, old[1], wrong(gpu(node), "xid", 7), after=7)
    assert (gpu(node).health, gpu(node).trouble) == (DeviceHealth.QUARANTINED, Trouble.XID)
    assert all(order.stop is not None for order in reply.assignments)


def test_what_an_operator_did_not_see_counts_once_he_returns_it(node, root):
    quarantine_device(actor=root, device=gpu(node), reason="fan", now=NOON)
    tell(node, wrong(gpu(node), "xid"), after=1)
    return_device(actor=root, device=gpu(node), now=at(2))
    tell(node, wrong(gpu(node), "xid"), after=3)
    assert gpu(node).trouble == Trouble.XID


def test_what_he_kept_out_by_hand_he_has_seen(node, root):
    tell(node, wrong(gpu(node), "xid"), after=1)
    quarantine_device(actor=root, device=gpu(node), reason="looking", now=at(2))
    tell(node, wrong(gpu(node), "xid"), after=3)
    return_device(actor=root, device=gpu(node), now=at(4))
    tell(node, wrong(gpu(node), "xid"), after=5)
    assert gpu(node).health == DeviceHealth.HEALTHY


def test_what_is_over_and_comes_back_counts_anew(node, root):
    tell(node, wrong(gpu(node), "lost"), after=1)
    return_device(actor=root, device=gpu(node), now=at(2))
    tell(node, after=3)
    assert gpu(node).answered is None and gpu(node).health == DeviceHealth.HEALTHY
    tell(node, wrong(gpu(node), "lost"), after=4)
    assert gpu(node).health == DeviceHealth.QUARANTINED


def test_what_weighs_more_takes_the_place_of_why_it_is_out(node):
    hot, broken = wrong(gpu(node), "hot"), wrong(gpu(node), "xid", 5)
    tell(node, hot, after=1)
    tell(node, hot, broken, after=5)
    assert gpu(node).trouble == Trouble.XID and "hardware error" in gpu(node).health_reason
    tell(node, broken, wrong(gpu(node), "not_released", 6), after=6)
    assert gpu(node).trouble == Trouble.XID
    assert node.events.filter(kind="device_quarantined").count() == 2


@pytest.mark.parametrize("at_once", [False, True])
def test_a_check_for_less_does_not_bring_it_back(node, at_once):
    broken, passed = wrong(gpu(node), "xid", 30), DeviceCheck(gpu(node).uuid, passed=True)
    tell(node, wrong(gpu(node), "hot"), after=0)
    tell(node, after=1)
    if not at_once:
        tell(node, broken, after=30)
        assert not Node.objects.get(pk=node.pk).has_checks
    tell(node, broken, after=62, checks=(passed,))
    assert (gpu(node).health, gpu(node).trouble) == (DeviceHealth.QUARANTINED, Trouble.XID)
