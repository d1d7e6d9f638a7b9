"""What a pool wants of its nodes' isolation, and nodes that keep less."""

from __future__ import annotations

import pytest

from scheduler.models import Node
from scheduler.services.errors import Forbidden, Invalid
from scheduler.services.nodes import enrol_node, issue_node_token
from scheduler.services.nodes.register import require_isolation
from scheduler.services.stopping import request_stop
from scheduler.states import EndReason, NodeState, is_enough
from scheduler.wire.messages import HostFacts
from tests import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, nodes=1, gpus=1).node(1)


def _says(node, word, at):
    host = HostFacts(8, 4096, 0, "10.0.0.1", isolation=word)
    scenes.sync(node, host=host, now=scenes.at(at))
    node.refresh_from_db()
    return node.state


@pytest.mark.parametrize(
    ("kept", "wanted", "enough"),
    [
        ("", "", True),
        ("none", "", True),
        ("", "none", False),
        ("user", "none", True),
        ("user", "sandbox", False),
        ("sandbox", "sandbox", True),
        ("firecracker", "sandbox", False),
    ],
)
def test_levels_are_in_order(kept, wanted, enough):
    assert is_enough(kept, wanted) is enough


def test_a_node_that_keeps_less_takes_no_jobs_until_it_keeps_enough(operator, alice, node):
    pool = node.pool
    assert _says(node, "user", 1) == NodeState.READY
    with pytest.raises(Forbidden):
        require_isolation(actor=alice, pool=pool, isolation="sandbox")
    with pytest.raises(Invalid):
        require_isolation(actor=operator, pool=pool, isolation="moat")
    require_isolation(actor=operator, pool=pool, isolation="sandbox", now=scenes.at(2))
    node.refresh_from_db()
    assert node.state == NodeState.QUARANTINED and node.trouble == "weak_isolation"
    assert "user; the pool wants sandbox" in node.state_reason
    node = type(node).objects.get(pk=node.pk)
    assert _says(node, "user", 3) == NodeState.QUARANTINED
    assert _says(node, "sandbox", 4) == NodeState.READY
    require_isolation(actor=operator, pool=pool, isolation="", now=scenes.at(5))
    assert _says(type(node).objects.get(pk=node.pk), "none", 6) == NodeState.READY


def test_a_node_that_has_not_said_how_it_keeps_jobs_apart_takes_none(operator, node):
    require_isolation(actor=operator, pool=node.pool, isolation="sandbox", now=scenes.at(1))
    _, secret = issue_node_token(actor=operator, pool=node.pool, now=scenes.at(2))
    enrol_node(request=scenes.enrol_request(secret, "n2", 1), now=scenes.at(3))
    fresh = Node.objects.get(name="n2")
    assert (fresh.state, fresh.trouble) == (NodeState.QUARANTINED, "weak_isolation")
    assert "its agent does not say" in fresh.state_reason
    assert _says(fresh, "user", 4) == NodeState.QUARANTINED
    assert "user; the pool wants sandbox" in fresh.state_reason
    assert _says(Node.objects.get(name="n2"), "sandbox", 5) == NodeState.READY


def test_a_node_that_keeps_less_is_told_of_no_job_that_it_does_not_have(
    operator, alice, project, node
):
    require_isolation(actor=operator, pool=node.pool, isolation="sandbox", now=scenes.at(1))
    assert _says(Node.objects.get(), "sandbox", 2) == NodeState.READY
    attempt = scenes.start(scenes.submit(alice, project), node, now=scenes.at(3))

    def told(*reports, **said):
        return scenes.sync(Node.objects.get(), *reports, now=scenes.at(4), **said)

    less = HostFacts(8, 4096, 0, "10.0.0.1", isolation="user")
    assert told(host=less).assignments == ()
    # One that it was given while it kept enough goes on.
    assert [one.fence for one in told(scenes.running(attempt)).assignments] == [attempt.pk]
    attempt.refresh_from_db()
    request_stop(attempt=attempt, reason=EndReason.START_TIMEOUT, now=scenes.at(5))
    # A stop starts nothing, and gives the devices back.
    assert told().assignments[0].stop.reason == EndReason.START_TIMEOUT
    assert told(scenes.ended(attempt)).forget == (attempt.pk,)
