"""What a silent node was given is started by nobody who takes its place; it runs again later."""

from __future__ import annotations

import pytest

from accounts.models import Project, User
from scheduler.models import Node
from scheduler.states import AttemptState
from tests.protocol.play import ALWAYS, Cluster


@pytest.mark.django_db
@pytest.mark.timeout(300)
@pytest.mark.parametrize("same_start", [False, True])
def test_a_copy_in_the_place_of_a_silent_node_starts_nothing_of_it(
    root, alice, project, same_start
):
    class Copied(Cluster):
        people: tuple[User, User, Project] = (root, alice, project)

    play = Copied()
    try:
        for node in play.nodes:
            play.talk(node)
            node.plans = [(1e9, 0)]
        play.submit(0, 1, 2, 0, 0, "normal", 36_000)
        play.cycle(0)
        for _ in range(2):
            for node in play.nodes:
                play.talk(node)
            play.advance(3.0)
        number = next(n for n, node in enumerate(play.nodes) if node.slots)
        original = play.nodes[number]
        original.is_cut = True
        play.live_on(2)
        play.a_copy_takes_a_place(number, same_start)
        assert play.nodes[number] is not original
        assert Node.objects.get(pk=original.row.pk).state == "ready"
        for _ in range(8):
            play.live_on(2)
            play.check(ALWAYS)
        assert len(play.lives) == 1, "it started twice"
        play.live_on(3)
        first, second = play.lives
        assert first.until is not None and second.fence > first.fence
        assert first.until < second.since
        play.check(ALWAYS)
        attempt = original.row.placements.get(attempt_id=first.fence).attempt
        assert (attempt.state, attempt.end_reason) == (AttemptState.ENDED, "node_lost")
    finally:
        play.teardown()
