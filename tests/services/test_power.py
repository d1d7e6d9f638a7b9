"""A node that two people call off is given up before its time, and by two people alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import AuditEvent
from scheduler.conf import load_conf
from scheduler.models import Allocation
from scheduler.services import reaping
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.nodes.power import say_node_is_off
from tests import scenes
from tests.scenes import NOON, at, running, start, submit, sync

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
