"""Policies of the cluster and of pools: what is in force, and what is refused."""

from __future__ import annotations

import pytest

from scheduler.engine.policy import Order
from scheduler.models import Headroom, PoolRule, SchedulingRule
from scheduler.services.bookings.headroom import set_headroom
from scheduler.services.errors import Forbidden, Invalid
from scheduler.services.sharing.limits import set_weight
from scheduler.services.sharing.policies import (
    clear_pool_policy,
    policy_in_force,
    set_policy,
    set_pool_policy,
)
from tests import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"name": "best"}, "name"),
        ({"name": "fair", "half_life_s": 0}, "half_life_s"),
        ({"name": "fair", "half_life_s": float("nan")}, "half_life_s"),
        ({"name": "fifo", "half_life_s": 3600}, "half_life_s"),
        ({"name": "shortest", "preempts": True, "head_patience_s": 60}, "head_patience_s"),
        ({"name": "fair", "head_patience_s": -1}, "head_patience_s"),
        ({"name": "fair", "placement": "fgd"}, "placement"),
    ],
)
def test_what_would_have_no_effect_is_refused(root, settings, field):
    with pytest.raises(Invalid) as caught:
        set_policy(actor=root, **settings)
    assert caught.value.field == field
    assert not SchedulingRule.objects.exists()


def test_the_newest_rule_is_in_force(root, alice):
    set_policy(actor=root, name="fair", half_life_s=3600, placement="pack")
    assert (policy_in_force().half_life_s, policy_in_force().placement) == (3600, "pack")
    set_policy(actor=root, name="las")
    assert policy_in_force().order is Order.LAS
    with pytest.raises(Forbidden):
        set_policy(actor=alice, name="fifo")


def test_a_pool_may_have_its_own(root, alice, cluster):
    pool, other = cluster.pool, "elsewhere"
    with pytest.raises(Forbidden):
        set_pool_policy(actor=alice, pool=pool, name="las")
    set_pool_policy(actor=root, pool=pool, name="las", placement="pack")
    set_pool_policy(actor=root, pool=pool, name="shortest", preempts=True)
    policy = policy_in_force()
    mine = policy.of(pool.name)
    assert (mine.order, mine.placement, mine.rearranges) == ("shortest", "tight", True)
    assert (policy.order, policy.of(other).stops_lower_tiers) == ("fair", True)
    assert [rule.ended_at is None for rule in PoolRule.objects.all()] == [True, False]
    assert set_pool_policy(actor=root, pool=pool, name="fair") is None, "as the cluster is"
    assert policy_in_force().pools == ()
    with pytest.raises(Invalid, match="scheduled like this already"):
        set_pool_policy(actor=root, pool=pool, name="fair")
    set_pool_policy(actor=root, pool=pool, name="las")
    clear_pool_policy(actor=root, pool=pool)
    assert policy_in_force().pools == ()
    set_policy(actor=root, name="las", preempts=False)
    set_pool_policy(actor=root, pool=pool, name="fair")
    assert not policy_in_force().of(pool.name).preempts
    set_policy(actor=root, name="shortest", half_life_s=3600)
    assert policy_in_force().memory_s == 3600


@pytest.mark.parametrize(
    ("dials", "field"),
    [
        ({"name": "best"}, "name"),
        ({"name": "fair"}, "name"),
        ({"name": "fair", "placement": "tight", "preempts": True}, "name"),
        ({"name": "fifo", "placement": "fgd"}, "placement"),
        ({"name": "fifo", "head_patience_s": float("nan")}, "head_patience_s"),
        ({"name": "las", "preempts": True, "head_patience_s": 60}, "head_patience_s"),
        ({"name": "las"}, "preempts"),
        ({"name": "fifo", "preempts": False}, "preempts"),
    ],
)
def test_what_would_have_no_effect_in_a_pool_is_refused(root, cluster, dials, field):
    Headroom.objects.create(pool=cluster.pool, gpus=1)
    with pytest.raises(Invalid) as caught:
        set_pool_policy(actor=root, pool=cluster.pool, **dials)
    assert caught.value.field == field
    assert not PoolRule.objects.exists()


def test_headroom_of_a_pool_goes_by_its_own_policy(root, cluster):
    with pytest.raises(Invalid, match="follows the cluster already"):
        clear_pool_policy(actor=root, pool=cluster.pool)
    set_policy(actor=root, name="las")
    set_pool_policy(actor=root, pool=cluster.pool, name="fifo")
    assert set_headroom(actor=root, pool=cluster.pool, gpus=1)
    set_policy(actor=root, name="shortest")
    with pytest.raises(Invalid, match="Set its headroom to 0 first"):
        clear_pool_policy(actor=root, pool=cluster.pool)
    assert policy_in_force().of(cluster.pool.name).order == "fifo"


def test_a_weight_needs_the_policy_that_looks_at_it(root, team, project):
    set_policy(actor=root, name="fifo")
    with pytest.raises(Invalid, match="no effect under fifo"):
        set_weight(actor=root, owner=team, weight=2)
    set_policy(actor=root, name="fair")
    assert set_weight(actor=root, owner=team, weight=2).weight == 2
    with pytest.raises(Invalid, match="of a project has no effect"):
        set_weight(actor=root, owner=project, weight=2)
