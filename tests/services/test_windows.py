"""Nodes follow their maintenance windows, and nobody's drain is undone."""

from __future__ import annotations

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.loop.loading import load_snapshot
from scheduler.models import Node
from scheduler.services.errors import Conflict
from scheduler.services.nodes import drain_node
from scheduler.services.sites.following import follow_windows
from scheduler.services.sites.windows import cancel_window, plan_window
from tests import scenes
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=3, gpus=2)


def plan(root, cluster, *nodes, hours=(1, 3)):
    begin, end = hours
    return plan_window(
        actor=root,
        pool=cluster.pool,
        from_at=at(begin * HOUR),
        until_at=at(end * HOUR),
        nodes=nodes,
        reason="switch",
        now=NOON,
    )


def states():
    return dict(Node.objects.order_by("name").values_list("name", "state"))


def test_nodes_go_out_when_it_begins_and_back_when_it_is_over(
    root, cluster, django_assert_num_queries
):
    plan(root, cluster, "n1", "n2")
    with django_assert_num_queries(1):
        assert follow_windows(now=at(HOUR - 1)) == 0
    assert follow_windows(now=at(HOUR)) == 2
    assert states() == {"n1": "draining", "n2": "draining", "n3": "ready"}
    node = Node.objects.get(name="n1")
    assert node.state_reason == "maintenance until 20 Nov 2026, 15:00 UTC: switch"
    assert follow_windows(now=at(2 * HOUR)) == 0
    assert follow_windows(now=at(3 * HOUR)) == 2
    assert set(states().values()) == {"ready"}
    assert follow_windows(now=at(3 * HOUR + 1)) == 0


def test_what_an_operator_drains_before_or_meanwhile_stays_drained(root, cluster):
    window = plan(root, cluster)
    drain_node(actor=root, node=cluster.node(1), reason="fan", now=at(60))
    assert follow_windows(now=at(HOUR)) == 2
    drain_node(actor=root, node=cluster.node(2), reason="disk", now=at(2 * HOUR))
    cancel_window(actor=root, window=window, now=at(2 * HOUR + 1))
    assert follow_windows(now=at(2 * HOUR + 2)) == 1
    assert states() == {"n1": "draining", "n2": "draining", "n3": "ready"}


def test_one_window_follows_another_on_the_same_node(root, cluster):
    plan(root, cluster, "n1")
    plan(root, cluster, "n1", hours=(3, 4))
    follow_windows(now=at(HOUR))
    assert follow_windows(now=at(3 * HOUR)) == 2
    assert states()["n1"] == "draining"
    assert follow_windows(now=at(4 * HOUR)) == 1
    assert states()["n1"] == "ready"


def test_windows_on_one_node_do_not_overlap(root, cluster):
    first = plan(root, cluster, "n1")
    for nodes in (("n1", "n2"), ()):
        with pytest.raises(Conflict) as refused:
            plan(root, cluster, *nodes, hours=(2, 4))
        assert refused.value.facts == {"window": first.pk}
    assert plan(root, cluster, "n2", hours=(2, 4))


def test_who_waits_is_told_of_the_maintenance_and_not_of_drained_nodes(
    root, alice, project, cluster
):
    plan(root, cluster)
    follow_windows(now=at(HOUR))
    scenes.submit(alice, project, now=NOON)
    loaded = load_snapshot(at(HOUR + 1)).snapshot
    (wait,) = plan_cycle(loaded).iter_waits()
    assert str(wait.reason) == "maintenance_conflict"
    drain_node(actor=root, node=cluster.node(1), now=at(2 * HOUR))
    assert load_snapshot(at(2 * HOUR)).snapshot.nodes.takes_work.tolist() == [False, True, True]
