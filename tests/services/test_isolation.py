"""What a pool wants of its nodes' isolation, and nodes that keep less."""

from __future__ import annotations

import pytest

from scheduler.services.errors import Forbidden, Invalid
from scheduler.services.nodes.health import require_isolation
from scheduler.states import NodeState, is_enough
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
