"""A program that may stop for long ends on a node that is cut off before it runs elsewhere."""

from __future__ import annotations

import pytest

from accounts.models import Project, User
from scheduler.models import Node, Placement
from scheduler.services.nodes.power import say_node_is_off
from scheduler.states import NodeState
from tests.protocol.lives import apart, grouped
from tests.protocol.play import ALWAYS, Cluster
from tests.protocol.wire import GPUS, NODES


# Asked to stop as the grace ends; by its time limit, a moment before that, which nobody hears of.
@pytest.mark.django_db
@pytest.mark.timeout(300)
@pytest.mark.parametrize("limit_s", [36_000, 840])
def test_a_program_has_stopped_where_nobody_hears_it_before_it_runs_elsewhere(
    root, alice, project, limit_s
):
    class Cut(Cluster):
        people: tuple[User, User, Project] = (root, alice, project)

    play = Cut()
    try:
        for node in play.nodes:
            play.talk(node)
            node.plans = [(1e9, 0)]
        play.submit(0, 1, 2, 0, 0, "normal", limit_s, stop=600)
        play.cycle(0)
        for _ in range(2):
            for node in play.nodes:
                play.talk(node)
            play.advance(3.0)
        node = next(node for node in play.nodes if node.slots)
        node.is_cut = True
        for _ in range(12):
            play.live_on(3)
            play.check(ALWAYS)
            play.nobody_runs_beside_its_own_or_on_anothers_device()
        first, *later = play.lives
        assert first.until is not None and all(first.until < one.since for one in later)
        # As far as anybody knows its node had died before.
        assert len(later) == 1
        assert not node.row.placements.filter(ended_at__isnull=True).exists()
    finally:
        play.teardown()


@pytest.mark.django_db
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [0, 1])
def test_nothing_meets_a_program_whose_node_was_called_off_wrongly(
    root, operator, alice, project, number
):
    """The first node's agent is an older one, which lets it have its time to stop in."""

    class Dark(Cluster):
        people: tuple[User, User, Project] = (root, alice, project)

    play = Dark()
    try:
        for node in play.nodes:
            play.talk(node)
            node.plans = [(1e9, 0)] * 2
        for key in range(NODES + 1):
            play.submit(key, 1, GPUS, 0, 0, "normal", 36_000)
        play.cycle(0)
        play.live_on(1)
        node = play.nodes[number]
        [first] = [one for one in play.lives if one.node == node.row.name]
        node.is_cut = True
        play.live_on(1)
        for actor in (root, operator):
            row = Node.objects.get(pk=node.row.pk)
            assert row.state == NodeState.SILENT
            say_node_is_off(actor=actor, node=row, reason="dark", now=play.moment())
        play.cycle(0)
        node.is_cut = False
        play.talk(node)
        assert Node.objects.get(pk=node.row.pk).state == NodeState.READY
        for _ in range(8):
            play.cycle(0)
            play.talk(node, "twice")
            play.advance(20.0)
            for group in grouped(play.lives, lambda life: life.devices):
                apart(group)
        last = [one for one in play.lives if one.node == node.row.name][-1]
        assert last is not first and first.until is not None and last.since > first.until
        assert not Placement.objects.filter(attempt=first.fence, log_size=0).exists()
    finally:
        play.teardown()
