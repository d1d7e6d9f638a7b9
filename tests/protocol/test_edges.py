"""Every legal move of jobs and attempts is made by a history of its own; no other is."""

from __future__ import annotations

from collections import Counter

import pytest

from accounts.models import Project, User
from scheduler.states import ATTEMPT_MOVES, JOB_MOVES
from tests.protocol.edges import Edge, edges_walked
from tests.protocol.play import Cluster
from tests.protocol.walks import WALKS

LEGAL: frozenset[Edge] = frozenset(
    (kind, str(was), str(now))
    for kind, moves in (("job", JOB_MOVES), ("attempt", ATTEMPT_MOVES))
    for was, nexts in moves.items()
    for now in nexts
)


@pytest.mark.django_db
@pytest.mark.timeout(300)
def test_every_edge_of_the_states_has_somebody_who_walks_it(root, alice, project):
    class Walked(Cluster):
        people: tuple[User, User, Project] = (root, alice, project)

    walked: Counter[Edge] = Counter()
    for walk in WALKS:
        play = Walked()
        try:
            walk(play)
            walked += edges_walked()
        finally:
            play.teardown()
    made = {edge for edge in walked if edge[0] != "node"}
    print(f"\nedges {len(made & LEGAL)}/{len(LEGAL)}")
    assert made <= LEGAL, sorted(made - LEGAL)
    left = sorted(f"{kind}: {was} to {now}" for kind, was, now in LEGAL - made)
    assert not left, f"nobody walks {left}"
