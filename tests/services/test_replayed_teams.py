"""What a replay takes of teams: the weights in force, and what holds for those above them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.services import create_team, move_team
from scheduler.models import Job
from scheduler.selectors.traces import window_of
from scheduler.services.requesting.foreseeing.replaying import teams_today
from scheduler.services.sharing.limits import set_quota, set_weight
from scheduler.services.sharing.policies import set_policy
from scheduler.services.simulating.scenarios import ask_scenario, simulate_scenarios
from tests import scenes
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db
NOW = at(2 * 24 * 3600)


@pytest.fixture
def pool(root, alice, project, carol, other_project):
    """Twelve hours of work of two GPUs each, all at once for the eight that there are."""
    set_policy(actor=root, name="fair")
    cluster = scenes.build_cluster(root, nodes=1, gpus=8)
    for who, whose in ((alice, project), (carol, other_project)) * 6:
        job = submit(who, whose, now=at(0), gpus_per_node=2)
        times = {"queued_at": at(0), "started_at": at(0), "ended_at": at(0) + timedelta(hours=1)}
        Job.objects.filter(pk=job.pk).update(**times)
    return cluster.pool


def teams_of(pool):
    return teams_today(window_of(pool, at(0), NOW), [pool], {pool.pk: {scenes.MODEL}}, NOW)


def waits(root, change):
    """Of the teams as it is and with the change: each one's p50."""
    row = ask_scenario(actor=root, pool=None, hours=72, changes=[change], now=NOW)
    simulate_scenarios(now=NOW)
    row.refresh_from_db()
    return {team["name"]: tuple(team["p50_s"]) for team in row.answer["teams"]}


def test_the_weights_in_force_are_replayed(root, pool, team):
    """To say once more what holds changes nothing: the base is as it is."""
    set_weight(actor=root, owner=team, weight=3)
    base = teams_of(pool)
    assert dict(zip(base.names, base.weight, strict=True)) == {"speech": 1, "vision": 3}
    before, after = waits(root, "weight:vision=3")["vision"]
    assert before == after
    before, after = waits(root, "weight:vision=1")["vision"]
    assert before < after


def test_what_holds_above_a_team_is_replayed(root, pool, team, other_team):
    """Who is above it ran nothing itself: its weight counts, and its maximum binds all below."""
    above = create_team(actor=root, name="Zenith", slug="zenith")
    set_quota(actor=root, owner=above, maximum=2)
    set_weight(actor=root, owner=above, weight=5)
    move_team(actor=root, team=team, parent=above)
    base = teams_of(pool)
    assert (base.names, base.parent) == (("speech", "zenith", "vision"), (-1, -1, 1))
    assert (base.weight, base.most().tolist()) == ((1, 5, 1), [-1, 2, 2])
    before, after = waits(root, "maximum:zenith=4")["vision"]
    assert after < before
