"""Quotas, caps and budgets along the tree of teams, and what becomes of them when a team moves."""

from __future__ import annotations

import pytest

from accounts.services import add_member, create_project, create_team
from scheduler.engine.snapshot import NONE
from scheduler.loop.loading.accounts import load_owners
from scheduler.models import Account
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.grants import add_grant, revoke_grant
from scheduler.services.sharing.guard import held_now
from scheduler.services.sharing.limits import set_caps, set_quota
from scheduler.services.teams import move_team
from scheduler.spec import SpecInvalid
from tests import scenes
from tests.scenes import TOKEN, at, start, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def below(root, team):
    """vision/below, a team of its own."""
    return create_team(actor=root, name="Below", parent=team)


@pytest.fixture
def deep(root, below):
    return create_project(actor=root, team=below, name="Deep")


def refused(job, node) -> bool:
    devices = scenes._free(node, job.gpus_per_node)
    placed = PlacedOn(node.pk, 0, devices, job.cpus, job.memory_mib)
    return start_attempts([Start(job.pk, (placed,))], lease_token=TOKEN, now=at(0)) == []


def held(quota) -> int:
    quota.refresh_from_db()
    assert quota.held == held_now(quota)
    return quota.held


def test_what_a_team_below_holds_counts_above(cluster, root, team, project, deep):
    quota = set_quota(actor=root, owner=team, maximum=2)
    start(submit(root, deep), cluster.node(1))
    start(submit(root, project), cluster.node(1))
    assert held(quota) == 2
    assert refused(submit(root, deep), cluster.node(2))
    set_caps(actor=root, owner=team, max_pending=1)
    with pytest.raises(SpecInvalid, match="the team vision"):
        submit(root, deep)


def test_a_guarantee_below_is_part_of_the_one_above(root, team, below, other_team):
    set_quota(actor=root, owner=team, guaranteed=4)
    with pytest.raises(Invalid, match="account above"):
        set_quota(actor=root, owner=below, guaranteed=5)
    set_quota(actor=root, owner=below, guaranteed=4)
    assert Account.objects.get(team=below).depth == 2
    set_quota(actor=root, owner=other_team, guaranteed=3)
    with pytest.raises(Invalid, match="Raise its guarantee") as refusal:
        move_team(actor=root, team=below, parent=other_team)
    assert refusal.value.field == "parent"


def stays(team, **move) -> Invalid:
    """The move is refused, and the team is where it was."""
    before = team.parent
    with pytest.raises(Invalid) as refused:
        move_team(team=team, **move)
    assert refused.value.field == "parent"
    team.refresh_from_db()
    assert team.parent == before
    return refused.value


def test_a_lead_moves_no_guarantee_to_where_there_is_none_to_give_from(
    root, lead, team, other_team, below
):
    set_quota(actor=root, owner=team, guaranteed=4)
    set_quota(actor=root, owner=below, guaranteed=4)
    add_member(actor=root, team=other_team, user=lead, role="lead")
    lead = type(lead).objects.get(pk=lead.pk)
    assert "speech is guaranteed nothing" in str(stays(below, actor=lead, parent=other_team))
    set_quota(actor=root, owner=below, maximum=4)
    move_team(actor=lead, team=below, parent=other_team)


def test_a_guarantee_moves_to_the_top_within_what_is_there(cluster, root, team, below):
    set_quota(actor=root, owner=team, guaranteed=4)
    set_quota(actor=root, owner=below, guaranteed=4)
    refused = stays(below, actor=root, parent=None)
    assert "the 4 guaranteed to others" in str(refused)
    assert refused.facts == {"in_service": 4, "headroom": 0, "guaranteed": 4}
    set_quota(actor=root, owner=below, guaranteed=1)
    set_quota(actor=root, owner=team, guaranteed=3)
    move_team(actor=root, team=below, parent=None)


def test_grants_move_within_what_is_guaranteed(cluster, root, team, below, other_team):
    set_quota(actor=root, owner=team, guaranteed=2, now=at(0))
    set_quota(actor=root, owner=other_team, guaranteed=1, now=at(0))
    own = set_quota(actor=root, owner=below, maximum=2, now=at(0))
    period = {"valid_from": at(100), "valid_until": at(200), "now": at(0)}
    grant = add_grant(actor=root, quota=own, guaranteed=2, maximum=2, **period)
    refused = stays(below, actor=root, parent=other_team, now=at(1))
    assert "2 GPUs would be guaranteed from 2" in str(refused)
    stays(below, actor=root, parent=None, now=at(1))
    revoke_grant(actor=root, grant_id=grant.pk, now=at(2))
    move_team(actor=root, team=below, parent=other_team, now=at(3))


def test_a_move_takes_what_is_held_along(cluster, root, team, below, deep, other_team):
    old = set_quota(actor=root, owner=team, maximum=4)
    new = set_quota(actor=root, owner=other_team, maximum=4)
    own = set_quota(actor=root, owner=deep, maximum=3)
    attempt = start(submit(root, deep), cluster.node(1))
    assert (held(old), held(new), held(own)) == (1, 0, 1)
    move_team(actor=root, team=below, parent=other_team)
    assert (held(old), held(new), held(own)) == (0, 1, 1)
    move_team(actor=root, team=below, parent=None)
    assert (held(old), held(new), held(own)) == (0, 0, 1)
    assert Account.objects.get(project=deep).depth == 2
    move_team(actor=root, team=below, parent=other_team)
    scenes.sync(cluster.node(1), scenes.running(attempt), now=at(1))
    scenes.sync(cluster.node(1), scenes.ended(attempt), now=at(2))
    assert (held(old), held(new), held(own)) == (0, 0, 0)


def test_a_move_waits_while_running_jobs_are_committed_to_a_budget(
    cluster, root, team, below, deep, other_team
):
    set_budget(
        actor=root, owner=team, gpu_hours=100, valid_from=at(-1), valid_until=at(10**6), now=at(0)
    )
    attempt = start(submit(root, deep), cluster.node(1))
    with pytest.raises(Conflict, match="1 jobs of below run"):
        move_team(actor=root, team=below, parent=other_team, now=at(1))
    below.refresh_from_db()
    assert below.parent == team
    scenes.sync(cluster.node(1), scenes.running(attempt), now=at(1))
    scenes.sync(cluster.node(1), scenes.ended(attempt), now=at(2))
    move_team(actor=root, team=below, parent=other_team, now=at(3))


def test_the_engine_sees_the_same_tree(root, team, below, deep, project):
    # A parent that is younger than its child comes first all the same.
    above = create_team(actor=root, name="Above")
    move_team(actor=root, team=team, parent=above)
    owners = load_owners([(deep.pk, root.pk)], now=at(0), half_life_s=None)
    rows = [f"project:{deep.pk}", *(f"team:{one.pk}" for one in (below, team, above)), "org"]
    assert [rows[0], *owners.way_up(rows[0])] == rows
    parents = owners.accounts.parent
    assert all(parents[row] < row for row in range(len(parents)))
    assert list(parents).count(NONE) == 1
