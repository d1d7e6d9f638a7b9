"""The list of cost centres: who is charged to which, since when, and who to none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from accounts.errors import Forbidden
from accounts.selectors.cost_centres import cost_centres
from accounts.services import create_team, rename_team, set_cost_centre

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SOON = NOON + timedelta(hours=1)


def test_centres_name_their_teams_and_since_when(
    root, alice, team, other_team, client, django_assert_max_num_queries
):
    assert [(c.code, len(c.teams)) for c in cost_centres(root)] == [("", 2)]
    set_cost_centre(actor=root, team=team, code="CC-1", name="Old <b>", now=NOON)
    set_cost_centre(actor=root, team=team, code="CC-2", name="Research", now=SOON)
    rename_team(actor=root, team=team, name="Seers", now=SOON + timedelta(hours=1))
    with django_assert_max_num_queries(4):
        old, new, none = cost_centres(root)
    assert (old.code, old.teams) == ("CC-1", ())
    assert (new.name, [(t.name, t.since) for t in new.teams]) == ("Research", [("Seers", SOON)])
    assert (none.code, [t.name for t in none.teams]) == ("", [other_team.name])
    with pytest.raises(Forbidden):
        cost_centres(alice)
    client.force_login(root)
    page = client.get("/finance/centres/").content.decode()
    assert 'since <time datetime="2026-11-20">20 Nov 2026<' in page and "Old &lt;b&gt;" in page
    assert "no team is charged to it now" in page
    items = client.get("/api/v1/finance/cost-centres/").json()["items"]
    assert [(one["code"], len(one["teams"])) for one in items] == [
        ("CC-1", 0),
        ("CC-2", 1),
        ("", 1),
    ]
    assert items[1]["teams"][0]["slug"] == team.slug


def test_of_many_teams_of_a_centre_the_first_are_named(root, client):
    for number in range(32):
        create_team(actor=root, name=f"Team {number:02}")
    client.force_login(root)
    page = client.get("/finance/centres/").content.decode()
    assert "Team 29" in page and "Team 30" not in page
    assert "and 2 more" in page
