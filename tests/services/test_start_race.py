"""What others do to a node or a job between a start's first look and its commit."""

from __future__ import annotations

import pytest

from scheduler.models import Allocation, Device, Node
from scheduler.services import placing
from scheduler.services.changing import sizes
from scheduler.services.errors import Conflict
from scheduler.services.nodes import drain_node, retire_node
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from tests import scenes
from tests.locks import elsewhere
from tests.scenes import TOKEN, at, submit

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


def placed(job, node: Node, gpus: int = 1) -> Start:
    devices = Device.objects.filter(node=node).order_by("index").values_list("pk", flat=True)
    return Start(job.pk, (PlacedOn(node.pk, 0, tuple(devices[:gpus]), 1, 1024),))


def start_while(monkeypatch, starts, act) -> list[int]:
    """Start them, and once their nodes and jobs were looked at, let somebody else do `act`."""
    todo = [act]

    def reach(point: str) -> None:
        if point == "scheduler.moved" and todo:
            elsewhere(todo.pop())

    monkeypatch.setattr(placing, "reach", reach)
    return start_attempts(starts, lease_token=TOKEN, now=at(1))


ACTS = {
    "retired": lambda node, root: retire_node(actor=root, node=node),
    "draining": lambda node, root: drain_node(actor=root, node=node),
}


@pytest.mark.parametrize("gpus", [1, 0])
@pytest.mark.parametrize("state", ACTS)
def test_nothing_starts_on_a_node_that_is_taken_out_meanwhile(
    monkeypatch, cluster, root, alice, project, state, gpus
):
    first, second = cluster.nodes
    job, other = (submit(alice, project, gpus_per_node=gpus) for _ in range(2))
    starts = [placed(job, first, gpus), placed(other, second, gpus)]
    started = start_while(monkeypatch, starts, lambda: ACTS[state](first, root))
    assert started == [other.pk]
    job.refresh_from_db()
    first.refresh_from_db()
    assert (job.state, first.state) == ("queued", state)
    assert not Allocation.objects.filter(device__node=first).exists()
    assert not first.placements.exists()


def test_who_is_given_fewer_nodes_in_the_moment_of_its_start_is_asked_to_try_again(
    monkeypatch, cluster, alice, project
):
    """It had no attempt when that was looked up, and has one under the lock."""
    job = submit(alice, project, nodes="1..2")
    whole, todo = sizes.locked_job, [lambda: scenes.start(job, *cluster.nodes, now=at(1))]

    def locked_job(one):
        if todo:
            elsewhere(todo.pop())
        return whole(one)

    monkeypatch.setattr(sizes, "locked_job", locked_job)
    with pytest.raises(Conflict) as refused:
        sizes.set_nodes(actor=alice, job=job, nodes=1, now=at(2))
    assert refused.value.code == "try_again"
    job.refresh_from_db()
    assert (job.state, job.nodes) == ("starting", 2)
