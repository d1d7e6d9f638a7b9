"""The page of a pool: sums for everybody, names for those who may know, a rule with its diff."""

from __future__ import annotations

import re

import pytest

from scheduler.models import PoolRule, Scenario
from scheduler.services.sharing.policies import set_pool_policy
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
    assert "it is not replayed" in page.content.decode()
    assert not PoolRule.objects.exists()
    assert client.post(f"{HERE}policy/", asked).status_code == 302
    rule = PoolRule.objects.get()
    assert (rule.name, rule.preempts, rule.head_patience_s) == ("las", False, 30)
    refused = client.post(f"{HERE}policy/", {"name": "best"}, follow=True)
    assert "Who is next: Select a valid choice" in refused.content.decode()
    client.post(f"{HERE}policy/", {"follow": "1"})
    assert not PoolRule.objects.filter(ended_at=None).exists()


@pytest.mark.parametrize(("preempts", "replayed"), [("yes", "yes"), ("no", "no"), ("", "yes")])
def test_what_is_replayed_is_what_would_be_put_in_force(client, operator, root, preempts, replayed):
    cluster = scenes.build_cluster(root, nodes=1, gpus=1)
    pool = cluster.node(1).pool
    set_pool_policy(actor=operator, pool=pool, name="las", placement="pack", preempts=False)
    client.force_login(operator)
    asked = {"name": "fifo", "preempts": preempts, "placement": "", "head_patience_s": ""}
    page = client.get(HERE, asked)
    assert ("where jobs go", "room for usual jobs", "tightest fit") in page.context["changes"]
    simulator = "/cluster/simulator/"
    form = page.content.decode().partition(f'action="{simulator}"')[2].partition("</form>")[0]
    client.post(simulator, dict(re.findall(r'name="(\w+)" value="([^"]*)"', form)))
    wanted = ["policy=fifo", f"preempt={replayed}", "placement=tight"]
    assert Scenario.objects.get().changes == wanted


def test_patience_below_zero_is_refused_before_it_is_shown(client, operator, root):
    scenes.build_cluster(root, nodes=1, gpus=1)
    client.force_login(operator)
    page = client.get(HERE, {"name": "fifo", "head_patience_s": "-5"})
    assert "Patience" in page.content.decode() and not page.context["is_asked"]
