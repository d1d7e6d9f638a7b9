"""The waiting line over REST: places in the order that the policy makes, and what made them."""

from __future__ import annotations

import pytest

from accounts.services import create_project, create_team
from tests.factories import member
from tests.scenes import at, start, submit

pytestmark = pytest.mark.django_db


def test_the_least_share_goes_first_and_says_so(program, root, alice, project, cluster):
    other = create_team(actor=root, name="Other", slug="other")
    bob = member("bob9", other, by=root)
    foreign = create_project(actor=root, team=other, name="Else", slug="else")
    for _ in range(2):
        start(submit(alice, project), cluster.node(1), now=at(1))
    mine = submit(alice, project, gpus_per_node=2, now=at(2))
    theirs = submit(bob, foreign, gpus_per_node=2, now=at(3))
    places = program(alice).get("/queue/default/").json()["items"]
    assert [(place["position"], place["job"]) for place in places] == [(1, None), (2, mine.pk)]
    assert places[0]["share"] is None and places[0]["order"] is None
    assert places[1]["order"] == "fair" and not places[1]["is_overdue"]
    whole, team, own = places[1]["share"]
    assert whole == team == own > 0
    places = program(bob).get("/queue/default/").json()["items"]
    assert places[0]["job"] == theirs.pk and places[0]["share"][1:] == [0.0, 0.0]
