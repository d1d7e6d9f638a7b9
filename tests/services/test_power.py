"""A node that two people call off is given up before its time, and by two people alone."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.models import AuditEvent
from accounts.services import set_rate
from scheduler.conf import load_conf
from scheduler.loop.cycle import Scheduler
from scheduler.models import Allocation, Node, SchedulerLease
from scheduler.services import reaping
from scheduler.services.calling.together import Call, sync_nodes
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.nodes.devices.by_hand import return_device
from scheduler.services.nodes.power import say_node_is_off
from scheduler.states import EndReason
from scheduler.wire.messages import DeviceCheck, SyncReply, SyncRequest
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def silent(root, alice, project):
    """A node with a running job, of which nothing is heard."""
    cluster = scenes.build_cluster(root)
    node = cluster.node(1)
    job = submit(alice, project, disconnect_grace="24h")
    attempt = start(job, node)
    sync(node, running(attempt), now=at(0))
    reaping.mark_silent(now=NOON + load_conf().node_lease + timedelta(seconds=1))
    node.refresh_from_db()
    return node, job, attempt


def off(actor, node, after_s=60.0, reason="I pulled its plug"):
    return say_node_is_off(actor=actor, node=node, reason=reason, now=at(after_s))


def test_two_operators_give_a_silent_node_up_at_once(silent, root, operator, alice):
    node, job, attempt = silent
    with pytest.raises(Forbidden):
        off(alice, node)
    with pytest.raises(Invalid):
        off(operator, node, reason="  ")
    for _ in range(2):
        assert off(operator, node).state == "silent", "one person is one person"
    assert Allocation.objects.filter(released_at__isnull=True).count() == 1
    found = off(root, node, after_s=61)
    assert (found.state, found.said_off) == ("lost", None)
    job.refresh_from_db()
    assert (job.state, job.free_retries_used) == ("queued", 1)
    assert not Allocation.objects.filter(released_at__isnull=True).exists()
    said = AuditEvent.objects.filter(action__contains="off").order_by("pk")
    assert [(one.action, one.actor_name) for one in said] == [
        ("node.said_off", operator.username),
        ("node.powered_off", root.username),
    ]
    # It ran on after all: what it tells of is stopped, and the node serves again.
    assert sync(node, running(attempt), now=at(90)).assignments == ()
    with pytest.raises(Conflict):
        off(operator, node, after_s=91)


def test_nothing_starts_beside_a_program_whose_node_was_called_off_wrongly(silent, root, operator):
    """The node serves again at once, the GPU once its program has ended and it passed a check."""
    node, job, attempt = silent
    off(operator, node)
    off(root, node, after_s=61)
    SchedulerLease.objects.update(expires_at=NOON)
    scheduler = Scheduler(holder="test")
    held = attempt.placements.get().allocations.get().device
    uuids, others = [held.uuid], node.devices.exclude(pk=held.pk)
    others.update(health="failed")

    def free(now):
        scheduler.run_cycle(now)
        held.refresh_from_db()
        return job.attempts.count() > 1

    assert sync(node, running(attempt), now=at(90)).check == ()
    node.refresh_from_db()
    assert node.state == "ready" and not free(at(91))
    assert (held.health, held.trouble) == ("quarantined", "not_released")
    assert f"job #{job.pk} was given up" in held.health_reason
    # Neither time nor an answer to a check of before, nor the node's word on troubles change that.
    passed = (DeviceCheck(held.uuid, True),)
    assert sync(node, running(attempt), now=at(92), checks=passed).check == ()
    assert sync(node, running(attempt), now=at(400), troubles=()).check == ()
    assert not free(at(401))
    # An operator who returns it is not right; here the call is taken in together with others.
    return_device(actor=root, device=held, now=at(402))
    row = Node.objects.select_related("pool").get(pk=node.pk)
    said = SyncRequest(
        protocol=1, agent_version="0.1.0", agent_id="agent-1", boot_id="boot-1", seen_revision=0,
        hold_s=0, sent_at=at(403).timestamp(), reports=(running(attempt),),
    )  # fmt: skip
    [reply] = sync_nodes([Call(row, said, at(403))], now=at(403))
    assert isinstance(reply, SyncReply) and not free(at(404))
    over = ended(attempt, started_at=at(1).timestamp(), ended_at=at(500).timestamp())
    assert list(sync(node, over, now=at(505)).check) == uuids and not free(at(506))
    # What was under way since before is old news.
    sync(node, running(attempt), now=at(507))
    sync(node, over, now=at(508), checks=passed)
    assert free(at(509))
    kinds = node.events.filter(kind__startswith="device_").order_by("pk")
    assert list(kinds.values_list("kind", flat=True)) == [
        *("device_quarantined", "device_returned") * 2
    ]


def test_a_rank_that_never_began_keeps_its_gpu_for_a_while_only(silent, root, operator):
    """Its end tells of no time that it ran; a late word of it does not keep the GPU for ever."""
    node, _, attempt = silent
    off(operator, node)
    off(root, node, after_s=61)
    over = ended(attempt, exit_code=None, reason=EndReason.SETUP_FAILED)
    sync(node, over, now=at(90))
    sync(node, running(attempt), now=at(91))
    assert node.devices.filter(health="quarantined").count() == 1
    assert len(sync(node, over, now=at(160)).check) == 1


def test_of_a_shared_card_all_of_it_is_kept_out(root, operator, alice, project):
    """Nodes know nothing of slots: what runs there may be on any of them."""
    node = scenes.build_cluster(root).node(1)
    card = node.devices.get(index=1)
    set_rate(
        actor=root, device_model=f"{card.model} 1/2", price_per_gpu_hour=Decimal(2), currency="EUR",
        valid_from=at(-3600), restated_for="as if then",
    )  # fmt: skip
    cut_card(actor=root, device=card, slots=2, now=NOON)
    rank = start(submit(alice, project), node).placements.get()
    slots = list(card.slots.order_by("slot"))
    rank.allocations.update(device=slots[0])
    sync(node, running(rank.attempt), now=at(0))
    reaping.mark_silent(now=at(100))
    off(operator, node, after_s=101)
    off(root, node, after_s=102)
    sync(node, running(rank.attempt), now=at(103))
    out = node.devices.filter(health="quarantined").values_list("pk", flat=True)
    assert set(out) == {card.pk, *(slot.pk for slot in slots)}
    assert sync(node, running(rank.attempt), now=at(200)).check == ()
    assert sync(node, now=at(201)).check == (card.uuid,), "what it tells of no more is over"


def test_what_was_said_ends_with_the_nodes_own_word(silent, root, operator):
    node, job, attempt = silent
    off(operator, node)
    sync(node, running(attempt), now=at(70))
    with pytest.raises(Conflict):
        off(root, node, after_s=71)
    reaping.mark_silent(now=at(70) + load_conf().node_lease + timedelta(seconds=1))
    node.refresh_from_db()
    found = off(root, node, after_s=150)
    assert (found.state, found.off_by_one["by"]) == ("silent", root.pk)
    job.refresh_from_db()
    assert job.state == "running"
