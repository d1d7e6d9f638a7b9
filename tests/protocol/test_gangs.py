"""However a gang's loss is drawn, a fresh cluster shows it: an attempt that ran ends as lost."""

from __future__ import annotations

from itertools import product

import pytest

from accounts.models import Project, User
from tests.protocol.play import Cluster
from tests.protocol.test_promises import gangs_that_lost_a_node

HOWS = ("cut off", "restarted", "dies with its agent")


@pytest.mark.django_db
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("nodes", "rank", "how"), [*product((2, "2..3"), range(3), HOWS)])
def test_a_gang_that_is_to_lose_a_node_loses_one(root, alice, project, nodes, rank, how):
    class Lossy(Cluster):
        people: tuple[User, User, Project] = (root, alice, project)

    play = Lossy()
    try:
        for node in play.nodes:
            play.talk(node)
        play.a_gang_loses_a_node(nodes=nodes, rank=rank, how=how)
        # Until the others have ended and the last checkpoint was read back.
        play.live_on(3)
        assert gangs_that_lost_a_node().exists()
    finally:
        play.teardown()
