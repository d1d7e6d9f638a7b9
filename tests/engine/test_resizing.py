"""Elastic jobs that run give nodes back before anybody is stopped, and get more where it pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.resizing import gain_and_cost
from scheduler.engine.snapshot import Snapshot, ints
from scheduler.states import Tier
from tests.builders import draw, job
from tests.engine.owners import limit, shared_by
from tests.engine.shaping import shaped
from tests.engine.stopping import live, stops
from tests.engine.test_maintenance import closed
from tests.engine.test_rearranging_within_limits import owned

POLICY = Policy(preempts=True, resizes=True)
DAY_S = 86_400


def elastic(snapshot: Snapshot, least: int, sizes: tuple[int, ...] = ()) -> Snapshot:
    """Every running job may run on `least` nodes or more."""
    assert snapshot.running is not None
    jobs, size = snapshot.running.jobs, len(snapshot.running.jobs)
    columns = {
        "nodes_min": np.minimum(least, jobs.nodes),
        "sizes": ints([0 if sizes else -1] * size),
    }
    running = replace(snapshot.running, jobs=replace(jobs, **columns))
    return shaped(replace(snapshot, running=running), size_sets=(sizes,) if sizes else ())


def resizes(snapshot: Snapshot, policy: Policy = POLICY) -> list[tuple[int, int, int, int | None]]:
    plan = plan_cycle(snapshot, policy)
    return [(one.job, one.was, one.nodes, one.beneficiary) for one in plan.resizes]


def full(*waiting, tier: int = Tier.NORMAL, **columns) -> Snapshot:
    """Job 1 on three nodes and job 2 on one, everything held."""
    drawn = draw("a 11", "b 11", "c 11", "d 22", jobs=waiting)
    return live(drawn, job(1, "3x2", tier=tier), job(2, "1x2", tier=tier), **columns)


def test_who_can_shrink_does_before_anybody_is_stopped():
    snapshot = elastic(full(job(9, "2x2", tier=Tier.URGENT)), 1)
    assert resizes(snapshot) == [(1, 3, 1, 9)]
    assert stops(plan_cycle(snapshot, POLICY)) == []
    unwilling = replace(POLICY, resizes=False)
    assert resizes(snapshot, unwilling) == [] and stops(plan_cycle(snapshot, unwilling))


@pytest.mark.parametrize("tier", [Tier.NORMAL, Tier.URGENT])
def test_what_is_lent_comes_back_from_who_can_shrink_first(tier):
    """Whatever their tier; job 2 is the newest and would be the one to stop."""
    snapshot = elastic(full(job(9, "1x2"), tier=tier, ran_s=[9_000, 60]), 1)
    owners = {1: "speech", 2: "speech", 9: "vision"}
    limits = [limit("vision", guaranteed=4), limit("speech", guaranteed=2)]
    shared = owned(snapshot, owners, limits)
    plan = plan_cycle(shared, POLICY)
    assert [(one.job, one.was, one.nodes, one.beneficiary) for one in plan.resizes] == [
        (1, 3, 2, 9)
    ]
    assert stops(plan) == [] and [start.job for start in plan.starts] == [9]
    rigid = replace(POLICY, resizes=False)
    assert resizes(shared, rigid) == [] and stops(plan_cycle(shared, rigid)) == [(2, 9)]


def test_it_shrinks_no_further_than_needed_and_only_to_sizes_it_can_use():
    wants = job(9, "1x2", tier=Tier.URGENT)
    assert resizes(elastic(full(wants), 1)) == [(1, 3, 2, 9)]
    assert resizes(elastic(full(wants), 1, (1, 3))) == [(1, 3, 1, 9)]


def test_if_shrinking_makes_no_room_others_are_stopped():
    snapshot = elastic(full(job(9, "4x2", tier=Tier.URGENT)), 2)
    plan = plan_cycle(snapshot, POLICY)
    assert plan.resizes == () and {victim for victim, _ in stops(plan)} == {1, 2}


def test_nobody_shrinks_for_an_equal_or_before_the_promised_time():
    assert resizes(elastic(full(job(9, "1x2")), 1)) == []
    fresh = full(job(9, "1x2", tier=Tier.URGENT), ran_s=[5, 5], least_s=[600, 600])
    assert resizes(elastic(fresh, 1)) == []


def test_what_one_gives_nobody_else_has_to_give_again():
    wants = [job(9, "1x2", tier=Tier.URGENT), job(8, "2x1", tier=Tier.URGENT)]
    plan = plan_cycle(elastic(full(*wants), 1), POLICY)
    assert plan.resizes and len({one.job for one in plan.resizes}) == len(plan.resizes)
    assert not {one.job for one in plan.resizes} & {victim for victim, _ in stops(plan)}


def growing(limit_s: float, *waiting, **columns) -> Snapshot:
    drawn = draw("a 11", "b ..", "c ..", jobs=waiting)
    columns.setdefault("checkpoint_age_s", [0.0])
    return elastic(live(drawn, job(1, "3x2", limit_s=limit_s), **columns), 1)


def test_a_long_job_grows_where_nobody_waits():
    (resize,) = plan_cycle(growing(DAY_S), POLICY).resizes
    assert (resize.job, resize.was, resize.nodes, resize.beneficiary) == (1, 1, 3, None)
    # Two thirds of a day on one node, less a restart on three; on two GPUs each.
    assert resize.gain_gpu_s == 2 * (DAY_S * 2 // 3 - 3 * 60)


@pytest.mark.parametrize(
    ("lines", "limits"),
    [
        (("org", "org/t"), [limit("t", maximum=8)]),
        # Both on three nodes for a day would take twelve GPUs.
        (("org", f"org/t budget={8 * DAY_S}"), []),
    ],
)
def test_what_one_takes_its_account_has_for_no_other(lines, limits):
    drawn = draw("a 11", "b 22", "c ..", "d ..", "e ..", "f ..")
    both = [job(number, "3x2", limit_s=DAY_S) for number in (1, 2)]
    snapshot = elastic(live(drawn, *both, checkpoint_age_s=[0.0, 0.0]), 1)
    snapshot = shared_by(snapshot, *lines, owners={1: "t", 2: "t"}, limits=limits)
    jobs = replace(snapshot.running.jobs, account=ints([1, 1]))
    snapshot = replace(snapshot, running=replace(snapshot.running, jobs=jobs))
    found = plan_cycle(snapshot, POLICY).resizes
    before = 2 * 2 if limits else 0
    assert (
        found and before + sum(2 * (one.nodes - (one.was if limits else 0)) for one in found) <= 8
    )


def test_it_does_not_grow_for_less_than_the_restart_costs():
    assert resizes(growing(100)) == []
    assert resizes(growing(DAY_S, checkpoint_age_s=[DAY_S / 4], ran_s=[DAY_S])) == []


def test_it_does_not_grow_where_somebody_waits():
    assert resizes(growing(DAY_S, job(5, "3x2"))) == []


@pytest.mark.parametrize(("begin_s", "happens"), [(90 * DAY_S, True), (DAY_S // 2, False)])
def test_nobody_changes_its_size_on_nodes_of_which_something_is_kept_within_its_limit(
    begin_s: float, happens: bool
):
    begun = begin_s, begin_s + 600
    assert bool(resizes(closed(growing(DAY_S), (7, "0", *begun)))) is happens
    assert bool(resizes(closed(growing(DAY_S), (7, "12", *begun)))) is happens
    shrinks = elastic(full(job(9, "1x2", tier=Tier.URGENT, limit_s=60)), 1)
    assert shrinks.running is not None
    jobs = replace(shrinks.running.jobs, time_limit_s=ints([DAY_S, DAY_S]))
    shrinks = replace(shrinks, running=replace(shrinks.running, jobs=jobs))
    assert bool(resizes(closed(shrinks, (7, "012", *begun)))) is happens


def test_nobody_grows_if_the_policy_does_not_resize():
    assert resizes(growing(DAY_S), Policy()) == []


@given(
    left_s=st.floats(1, 1e7),
    now=st.integers(1, 64),
    more=st.integers(1, 64),
    again_s=st.floats(0, 1e5),
)
def test_growth_pays_only_if_the_job_ends_sooner(left_s, now, more, again_s):
    size = now + more
    gain_s, cost_s = gain_and_cost(left_s, now, size, again_s)
    if gain_s > cost_s:
        assert again_s + left_s * now / size < left_s


@pytest.mark.parametrize("left_s", [60.0, 3600.0])
def test_the_gain_is_the_work_that_the_new_nodes_do(left_s):
    assert gain_and_cost(left_s, 1, 2, 10) == (left_s / 2, 20)
