"""Pools with policies of their own: each is scheduled as if the whole cluster followed its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Order, PlacementRule, Policy, PoolPolicy
from scheduler.engine.snapshot import Demand, Running, Snapshot, floats, ints
from scheduler.states import Tier
from tests.builders import draw, job
from tests.engine.owners import shared_by

POOLS = ("big", "default")
own = st.builds(
    PoolPolicy,
    pool=st.just("big"),
    order=st.sampled_from(Order),
    head_patience_s=st.sampled_from([0.0, 600.0]),
    placement=st.sampled_from(PlacementRule),
    preempts=st.booleans(),
)
cluster = st.builds(
    Policy,
    order=st.sampled_from(Order),
    head_patience_s=st.sampled_from([0.0, 600.0]),
    placement=st.sampled_from(PlacementRule),
    preempts=st.booleans(),
    heads=st.sampled_from([1, 3]),
)
tiers = st.sampled_from([Tier.NORMAL, Tier.NORMAL, Tier.URGENT])
seconds = st.sampled_from([30, 600, 7200])


@given(cluster, own, own)
def test_what_holds_in_each_pool_is_what_it_says_when_asked_alone(policy, big, other):
    """Kept for all decisions by one policy, and told from that of another one."""
    for each in (policy, replace(policy, pools=(big, replace(other, pool="c"))), policy):
        names = ["a", "big", "c", "big"]
        assert each.by_pool(names) == tuple(each.of(name) for name in names)


@st.composite
def two_pools(drawing: st.DrawFn) -> Snapshot:
    """Nodes of four GPUs with one or two jobs each; some wait for either pool."""
    lines, running, jobs = [], [], []
    for number, pool in enumerate(
        drawing(st.lists(st.sampled_from(POOLS), min_size=2, max_size=5))
    ):
        marks = drawing(st.sampled_from(["aaaa", "aabb", "abbb", "aa.."]))
        for letter in sorted(set(marks) - {"."}):
            mark = "0123456789"[2 * number + (letter == "b")]
            shape = f"1x{marks.count(letter)}"
            marks = marks.replace(letter, mark)
            running.append(job(int(mark), shape, limit_s=drawing(seconds), pool=pool))
        lines.append(f"n{number} {marks} cpus=16 pool={pool}")
    for number in range(100, 100 + drawing(st.integers(2, 9))):
        shape = drawing(st.sampled_from(["1x0", "1x1", "1x2", "1x4", "2x4"]))
        more = {"limit_s": drawing(seconds), "attained_s": drawing(st.sampled_from([0, 9000]))}
        waited, pool = drawing(st.sampled_from([0, 700])), drawing(st.sampled_from(POOLS))
        jobs.append(job(number, shape, tier=drawing(tiers), waited=waited, pool=pool, **more))
    pools = [job(0, pool=pool) for pool in POOLS]
    snapshot = draw(*lines, jobs=[*jobs, *pools])
    live = draw("x", jobs=[*running, *pools]).waiting.take(ints(range(len(running))))
    costs = floats([60.0] * len(running))
    return replace(
        snapshot.only(ints(range(len(jobs)))),
        running=Running.of_jobs(live, restart_cost_s=costs),
        demand=Demand(ints([1, 4]), ints([1000, 1000]), ints([1, 4]), ints([-1, -1]), ints([3, 1])),
    )


def told(plan: Plan, numbers: set[int]) -> list[object]:
    """What a plan says of these jobs."""
    waits = {w.job: (w.reason, dict(w.facts)) for w in plan.iter_waits() if w.job in numbers}
    return [
        {start.job: start.placements for start in plan.starts if start.job in numbers},
        {stop.job: stop for stop in plan.stops if stop.job in numbers},
        {one.job: one for one in plan.reservations if one.job in numbers},
        waits,
        {job: one for job, one in plan.standings.items() if job in numbers},
    ]


@settings(max_examples=50)
@given(two_pools(), cluster, own)
def test_each_pool_is_scheduled_as_if_all_followed_its_policy(
    snapshot: Snapshot, cluster: Policy, big: PoolPolicy
) -> None:
    assert snapshot.running is not None
    policy = replace(cluster, pools=(big,))
    mixed = plan_cycle(snapshot, policy)
    for row, pool in enumerate(POOLS):
        mine = snapshot.waiting.pool == row
        numbers = set(snapshot.waiting.id[mine].tolist())
        numbers |= set(snapshot.running.jobs.id[snapshot.running.jobs.pool == row].tolist())
        alone = plan_cycle(snapshot.only(ints(np.flatnonzero(mine))), policy.of(pool))
        assert told(mixed, numbers) == told(alone, numbers)


def test_fair_and_oldest_first_side_by_side() -> None:
    """The pool `big` starts the oldest; in the other the account that has less goes first."""
    jobs = [
        job(11, "1x1", waited=50, pool="big"),
        job(12, "1x1", waited=9, pool="big"),
        job(13, "1x1", waited=50),
        job(14, "1x1", waited=9),
    ]
    drawn = draw("a .", "b .    pool=big", jobs=jobs)
    owners = {11: "rich", 12: "poor", 13: "rich", 14: "poor"}
    snapshot = shared_by(drawn, "org", "org/rich used=1e6", "org/poor", owners=owners)
    oldest = PoolPolicy("big", Order.FIFO, 600, PlacementRule.TIGHT, False)
    plan = plan_cycle(snapshot, Policy(order=Order.FAIR, pools=(oldest,)))
    assert {start.job for start in plan.starts} == {11, 14}
    assert {one.order for one in plan.standings.values()} == {"fair", "fifo"}
    assert (plan.standings[11].share, plan.standings[14].share is None) == (None, False)


def test_a_pool_has_one_policy_and_its_dials_are_checked() -> None:
    own = PoolPolicy("big", Order.LAS, 0, PlacementRule.PACK, True)
    policy = Policy(order=Order.FAIR, rest_s=5, pools=(own,))
    packed = Policy(Order.LAS, 0, placement=PlacementRule.PACK, preempts=True, rest_s=5)
    assert policy.of("big") == packed
    assert policy.of("default") == policy and policy.memory_s
    assert Policy(order=Order.LAS, pools=(replace(own, order=Order.FAIR),)).memory_s
    with pytest.raises(ValueError, match="each pool once"):
        Policy(pools=(own, own))
    with pytest.raises(ValueError, match="head_patience_s"):
        Policy(pools=(replace(own, head_patience_s=-1),))
