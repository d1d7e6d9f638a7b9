"""A second machine that speaks as a node that is there already."""

from __future__ import annotations

import pytest

from scheduler.conf import load_conf
from scheduler.models import Node
from scheduler.services.errors import Conflict
from scheduler.services.nodes import resume_node
from scheduler.states import NodeState
from tests import scenes
from tests.scenes import at, running, start, submit, sync

pytestmark = pytest.mark.django_db
COPY = "boot-copy"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root)


def _state(node: Node) -> tuple[str, str]:
    node.refresh_from_db()
    return node.state, node.trouble


def _refused(node: Node, now) -> str:
    with pytest.raises(Conflict) as refused:
        sync(node, boot_id=COPY, sent_at=now.timestamp(), now=now)
    node.refresh_from_db()
    return refused.value.code


def test_of_a_copied_identity_the_second_machine_gets_nothing_and_the_node_no_new_work(
    cluster, root, alice, project
):
    node = cluster.node(1)
    attempt = start(submit(alice, project), node)
    sync(node, running(attempt), now=at(1), sent_at=at(1).timestamp())
    assert _refused(node, at(5)) == "node_identity_in_use"
    assert _state(node) == (NodeState.READY, "")

    # A call that was under way when the other spoke proves nothing.
    sync(node, now=at(6), sent_at=at(5).timestamp())
    assert _state(node) == (NodeState.READY, "")
    reply = sync(node, running(attempt), now=at(11), sent_at=at(11).timestamp())
    assert reply.node_state == NodeState.QUARANTINED, "but what runs there goes on"
    assert _state(node) == (NodeState.QUARANTINED, "copied")
    assert "two machines" in node.state_reason and "boot-cop" in node.state_reason
    assert _refused(node, at(12)) == "node_identity_conflict"
    assert _refused(node, at(3600)) == "node_identity_conflict", "however long the first is away"

    # The node's own word does not end it, an operator's does.
    sync(node, troubles=(), now=at(3601), sent_at=at(3601).timestamp())
    assert _state(node) == (NodeState.QUARANTINED, "copied")
    resume_node(actor=root, node=node, now=at(3610))
    assert _state(node) == (NodeState.READY, "")
    assert node.rival is None


def test_a_machine_that_was_started_again_is_taken_up_once_the_lease_is_over(cluster):
    node = cluster.node(1)
    sync(node, now=at(0), sent_at=at(0).timestamp())
    assert _refused(node, at(5)) == "node_identity_in_use"
    over = at(load_conf().node_lease_s + 1)
    sync(node, boot_id=COPY, now=over, sent_at=over.timestamp())
    node.refresh_from_db()
    assert (node.boot_id, node.rival, node.state) == (COPY, None, NodeState.READY)


def _speaks(node: Node, agent: str, second: float, sent: float | None = None) -> str:
    moment = at(second if sent is None else sent).timestamp()
    sync(node, agent_id=agent, now=at(second), sent_at=moment)
    return _state(node)[1]


def test_two_agents_of_one_boot_that_speak_in_turn_are_two(cluster, root):
    node = cluster.node(1)
    assert [_speaks(node, who, s) for who, s in (("old", 0), ("new", 5))] == ["", ""]
    # A late call of the old one, from before the new one began, and what follows it.
    assert _speaks(node, "old", 6, sent=4) == ""
    assert _speaks(node, "new", 7) == ""
    assert _speaks(node, "old", 12) == "copied"
    assert node.state == NodeState.QUARANTINED and "of one boot" in node.state_reason
    with pytest.raises(Conflict) as refused:
        _speaks(node, "new", 13)
    assert refused.value.code == "node_identity_conflict"
    assert _speaks(node, "old", 14) == "copied", "and goes on to report"
    resume_node(actor=root, node=node, now=at(20))
    assert _speaks(node, "old", 21) == "" and node.rival is None


def test_an_agent_that_is_started_again_and_again_is_one(cluster):
    node = cluster.node(1)
    assert {_speaks(node, f"start-{n}", 3.0 * n) for n in range(6)} == {""}
    # Another machine is still told from it.
    assert _refused(node, at(20)) == "node_identity_in_use"
    assert node.rival["boot_id"] == COPY
