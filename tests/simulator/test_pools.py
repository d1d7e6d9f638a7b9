"""Several pools in one simulation, and jobs of higher tiers that stop others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.policy import Order, PlacementRule, Policy, PoolPolicy
from scheduler.engine.snapshot import floats, ints
from scheduler.simulator.changes import ChangeInvalid, changed
from scheduler.simulator.guard import Guards
from scheduler.simulator.judging.measures import measures_by_pool
from scheduler.simulator.replay import replay
from scheduler.simulator.teams import Teams
from scheduler.simulator.whatif import Setting, compare, impact_of, run_in
from scheduler.simulator.workload import Workload
from scheduler.states import Tier

FIFO = Policy(head_patience_s=0, backfill_slack_s=0)
TIERS = replace(FIFO, preempts=True)
SHORTEST = replace(FIFO, order=Order.SHORTEST)


def work(*jobs: tuple[float, float, int, int], per_node=(4, 2), **columns) -> Workload:
    """submit, run, gpus, pool."""
    submit, run, gpus, pool = zip(*jobs, strict=True)
    return Workload(
        per_node, floats(submit), floats(run), floats(run), ints(gpus), pool=ints(pool), **columns
    )


jobs_ = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 100), st.integers(1, 6), st.integers(0, 1)),
    min_size=1,
    max_size=12,
).map(sorted)


@settings(max_examples=8)
@given(jobs_, st.sampled_from([FIFO, SHORTEST]))
def test_pools_that_share_nothing_run_as_if_each_were_alone(jobs, policy):
    """Nodes of four GPUs and of two; guarded where the order may starve somebody."""
    both, nodes = work(*jobs), (2, 3)
    setting = Setting(nodes, policy, names=("a", "b"))
    run = run_in(both, setting)
    own = measures_by_pool(run.jobs, run.outcome, run.pools)
    for pool in (0, 1):
        mine = ints(np.flatnonzero(both.pools() == pool))
        alone = replace(both.take(mine), pool=None, gpus_per_node=(4, 2)[pool])
        found = run_in(alone, Setting(nodes[pool], policy))
        assert np.array_equal(run.outcome.end_s[mine], found.outcome.end_s)
        assert own[pool].jobs == len(mine)
    assert sum(one.gpu_hours for one in own) == pytest.approx(
        float((run.outcome.held_s * run.jobs.gpus).sum()) / 3600, abs=0.02
    )


def test_each_pool_has_its_own_policy_size_limits_and_faults():
    pairs = [(0, 100, 4, 0), (0, 100, 2, 1), (1, 50, 4, 0), (1, 50, 2, 1)]
    jobs = work(*pairs, (2, 10, 4, 0), (2, 10, 2, 1))
    base = Setting((1, 1), FIFO, Teams.equal(("t",)), names=("a", "b"))
    before = run_in(jobs, base)
    assert before.outcome.end_s.tolist() == [100, 100, 150, 150, 160, 160]
    own = changed(base, ["policy:a=shortest"])
    assert run_in(jobs, own).outcome.end_s.tolist() == [100, 100, 160, 150, 110, 160]
    assert own.policy.of("b").order is Order.FIFO
    assert changed(own, ["policy=fair"]).policy.of("a").order is Order.FAIR, "for all of them"
    larger = changed(base, ["nodes:b=3", "lose:a/0@50", "restore:a/0@60"])
    after = run_in(jobs, larger)
    assert after.outcome.end_s.tolist() == [160, 100, 210, 51, 220, 12]
    found = compare(before, after, len(jobs), (1.0, None))
    assert found["pools"]["b"]["change"]["wait_p50_s"] == -99
    assert found["pools"]["a"]["change"]["failures"] == 1
    assert found["pools"]["a"]["base"]["cost"] is not None and found["base"]["cost"] is None
    capped = impact_of(jobs, (base, changed(base, ["maximum:t@b=1"])))
    assert (capped.jobs, capped.left_out, len(capped.by_pool)) == (3, 3, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes=3", "say of which pool"),
        ("policy:c=fifo", "no pool 'c'"),
        ("lose:1@5", "say of which pool"),
        ("lose:b/9@5", "none of the 1 nodes"),
        ("weight:t@a=2", "of all pools together"),
    ],
)
def test_a_change_that_leaves_the_pool_open_is_refused(text, words):
    with pytest.raises(ChangeInvalid, match=words):
        changed(Setting((1, 1), FIFO, Teams.equal(("t",)), names=("a", "b")), [text])


def test_placement_is_a_change_like_any_other():
    base = Setting((1, 1), FIFO, names=("a", "b"))
    assert changed(base, ["placement=pack"]).policy.placement is PlacementRule.PACK
    assert changed(base, ["placement:b=fgd"]).policy.of("b").placement is PlacementRule.FGD
    jobs = work((0, 10, 1, 0), (0, 10, 2, 0), (0, 20, 1, 1))
    for rule in PlacementRule:
        run = run_in(jobs, changed(base, [f"placement={rule}"]))
        assert run.outcome.end_s.tolist() == [10, 10, 20]


def tiered(checkpoint_s: float, *, promised_s: float = 0.0) -> Workload:
    """A long exploratory job on all GPUs; at 100 an urgent one of ten seconds comes."""
    return work(
        (0, 300, 4, 0),
        (100, 10, 4, 0),
        per_node=4,
        tier=ints([Tier.EXPLORATORY, Tier.URGENT]),
        checkpoint_s=floats([checkpoint_s] * 2),
        promised_s=floats([promised_s] * 2),
    )


def test_who_is_stopped_for_a_higher_tier_does_again_what_no_checkpoint_holds():
    """Checkpoints at 30, 60 and 90: of 100 s run 10 are lost, and the restart takes 30."""
    outcome = replay(tiered(30), 1, TIERS)
    assert outcome.end_s.tolist() == [110 + 200 + 10 + 30, 110]
    assert (outcome.stops.tolist(), outcome.lost_s.tolist()) == ([1, 0], [10, 0])
    assert replay(tiered(np.inf), 1, TIERS).end_s.tolist() == [110 + 300 + 30, 110]
    assert replay(tiered(30), 1, FIFO).end_s.tolist() == [300, 310]


def test_nobody_is_stopped_before_what_it_was_promised_is_over():
    """The urgent one starts as soon as 150 s are over, though nothing else happens then."""
    outcome = replay(tiered(30, promised_s=150), 1, TIERS)
    assert outcome.end_s[1] == pytest.approx(160, abs=0.01)
    spared = replay(tiered(30), 1, replace(TIERS, min_run_s=200))
    assert spared.end_s[1] == pytest.approx(210, abs=0.01)


def test_one_pool_stops_lower_tiers_and_the_other_does_not():
    pair = work(
        (0, 300, 4, 0), (0, 300, 2, 1), (100, 10, 4, 0), (100, 10, 2, 1),
        tier=ints([0, 0, 20, 20]),
    )  # fmt: skip
    own = PoolPolicy("a", Order.FIFO, 0, PlacementRule.TIGHT, preempts=True)
    setting = Setting((1, 1), replace(FIFO, pools=(own,)), names=("a", "b"))
    found = impact_of(pair, (setting, changed(setting, ["preempt=no"])))
    assert [[one.preemptions for one in pool] for pool in found.by_pool] == [[1, 0], [0, 0]]
    assert found.measures[0].lost_gpu_hours == 0, "nobody spoke of checkpoints: it takes one first"
    assert found.preemptions == (1, 0)


def test_only_pools_that_may_starve_somebody_are_guarded():
    jobs = work((0, 10, 4, 0), (0, 10, 2, 1))
    policy = replace(FIFO, pools=(PoolPolicy("b", Order.SHORTEST, 0, PlacementRule.TIGHT, False),))
    setting = Setting((1, 1), policy, names=("a", "b"))
    limits = []
    pools = setting.pools(jobs.gpus_per_node)
    guards = Guards(jobs, pools, policy)

    def note(world, ended):
        limits.append(guards(world, ended))
        return limits[-1]

    replay(jobs, setting.nodes, policy, names=("a", "b"), limit=note)
    assert all(np.isinf(a) and np.isfinite(b) for a, b in limits)
