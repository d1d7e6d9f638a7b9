"""A program that may stop for long ends on a node that is cut off before it runs elsewhere."""

from __future__ import annotations

import pytest

from accounts.models import Project, User
from tests.protocol.play import ALWAYS, Cluster


# Asked to stop as the grace ends; by its time limit, a moment before that.
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
        # What had reached its limit is over; the other runs again.
        assert len(later) == (limit_s > 900)
        assert not node.row.placements.filter(ended_at__isnull=True).exists()
    finally:
        play.teardown()
