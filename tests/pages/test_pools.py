"""The page of a pool: sums for everybody, names for those who may know, a rule with its diff."""

from __future__ import annotations

import pytest

from scheduler.models import PoolRule
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db
HERE = "/cluster/pools/default/"


def test_teams_are_named_to_those_who_see_their_jobs(
    client, alice, carol, project, root, django_assert_max_num_queries
):
    build_yard(root, alice, project)
    for viewer, team in ((alice, "vision"), (carol, "")):
        client.force_login(viewer)
        view = client.get(HERE).context["view"]
        assert [one.team for one in view.teams] == [team]
        assert (view.all_.held, view.all_.jobs) == (view.teams[0].held, view.teams[0].jobs)
        assert view.all_.jobs == 1 and view.all_.held >= 1
        assert sum(one.total for one in view.flavours) == 4
    for number in range(3):
        with django_assert_max_num_queries(11):  # 3 for who asks, may what, is told
            client.get(HERE)
        scenes.submit(alice, project, name=f"more{number}")


def test_a_rule_is_shown_as_a_difference_and_then_put_in_force(client, operator, root):
    scenes.build_cluster(root, nodes=1, gpus=1)
    client.force_login(operator)
    asked = {"name": "las", "preempts": "no", "placement": "", "head_patience_s": "30"}
    page = client.get(HERE, asked)
    assert page.context["changes"] == [
        ("who is next", "smallest share first", "least run first"),
        ("may stop others", "yes", "no"),
        ("patience", "10 min", "30 s"),
    ]
    assert not PoolRule.objects.exists()
    assert client.post(f"{HERE}policy/", asked).status_code == 302
    rule = PoolRule.objects.get()
    assert (rule.name, rule.preempts, rule.head_patience_s) == ("las", False, 30)
    refused = client.post(f"{HERE}policy/", {"name": "best"}, follow=True)
    assert "Who is next: Select a valid choice" in refused.content.decode()
    client.post(f"{HERE}policy/", {"follow": "1"})
    assert not PoolRule.objects.filter(ended_at=None).exists()
