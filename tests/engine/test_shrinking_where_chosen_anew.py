"""Elastic jobs give nodes back before anybody stops, where all who run are chosen anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import Order
from scheduler.engine.snapshot import NONE, Snapshot, ints
from scheduler.states import Tier
from tests.builders import draw, job
from tests.engine.owners import limit
from tests.engine.stopping import live, starts, stops
from tests.engine.test_preemption import SHORTEST, running
from tests.engine.test_rearranging_within_limits import owned
from tests.engine.test_resizing import elastic, resizes

ELASTIC = replace(SHORTEST, resizes=True)
HOUR_S = 3600
SHORT = job(9, "1x2", limit_s=60)


def full(*waiting, tier: int = Tier.NORMAL, elastic_s: int = 10 * HOUR_S, rigid_s: int = HOUR_S):
    """Job 1, which can run on one node or more, on three nodes and job 2 on one."""
    drawn = draw("a 11", "b 11", "c 11", "d 22", jobs=waiting)
    wide = job(1, "3x2", tier=tier, limit_s=elastic_s)
    return elastic(running(drawn, wide, job(2, "1x2", tier=tier, limit_s=rigid_s)), 1)


def test_who_would_stop_gives_a_node_back_instead():
    plan = plan_cycle(full(SHORT), ELASTIC)
    (resize,) = plan.resizes
    assert (resize.job, resize.was, resize.nodes, resize.beneficiary) == (1, 3, 2, 9)
    assert stops(plan) == [] and len(starts(plan)[9]) == 1
    stays = {placement.node for placement in resize.placements}
    assert stays | set(starts(plan)[9]) == {101, 102, 103}
    rigid = plan_cycle(full(SHORT), replace(ELASTIC, resizes=False))
    assert (1, 9) in stops(rigid) and rigid.resizes == ()


def test_one_that_cannot_shrink_stays_beside_one_that_can():
    """Job 2 has most left and would go; job 1 shrinks, though it comes before it."""
    snapshot = full(SHORT, elastic_s=2 * HOUR_S, rigid_s=100 * HOUR_S)
    assert resizes(snapshot, ELASTIC) == [(1, 3, 2, 9)]
    assert stops(plan_cycle(snapshot, ELASTIC)) == []


def test_it_gives_all_that_is_needed_at_once():
    snapshot = full(SHORT, job(8, "1x2", limit_s=90))
    plan = plan_cycle(snapshot, ELASTIC)
    assert resizes(snapshot, ELASTIC) == [(1, 3, 1, 9)] and stops(plan) == []
    assert starts(plan).keys() == {8, 9}


def test_where_shrinking_is_not_enough_somebody_stops():
    plan = plan_cycle(full(*(job(number, "1x2", limit_s=60) for number in (6, 7, 8, 9))), ELASTIC)
    assert {victim for victim, _ in stops(plan)} == {1, 2} and len(starts(plan)) == 4


def test_who_does_not_pass_anybody_makes_nobody_shrink():
    """Job 1 ends before the newcomer would."""
    snapshot = full(job(9, "1x2", limit_s=500 * HOUR_S), elastic_s=HOUR_S)
    plan = plan_cycle(snapshot, ELASTIC)
    assert plan.resizes == () and stops(plan) == [] and starts(plan) == {}


def test_nobody_shrinks_for_a_lower_tier():
    plan = plan_cycle(full(SHORT, tier=Tier.URGENT), ELASTIC)
    assert plan.resizes == () and stops(plan) == [] and starts(plan) == {}


def test_only_sizes_it_can_use():
    drawn = draw("a 11", "b 11", "c 11", "d 22", jobs=[SHORT])
    wide, rigid = job(1, "3x2", limit_s=10 * HOUR_S), job(2, "1x2", limit_s=HOUR_S)
    assert resizes(elastic(running(drawn, wide, rigid), 1, (1, 3)), ELASTIC) == [(1, 3, 1, 9)]
    plan = plan_cycle(elastic(running(drawn, wide, rigid), 3), ELASTIC)
    assert plan.resizes == () and stops(plan)


def test_what_it_has_counts_not_what_it_would_like():
    """It would like four nodes, has two, and one is free: nobody is in the other's way."""
    drawn = draw("a 11", "b 11", "c ..", jobs=[SHORT])
    plan = plan_cycle(elastic(running(drawn, job(1, "4x2", limit_s=10 * HOUR_S)), 1), ELASTIC)
    assert stops(plan) == [] and plan.resizes == () and starts(plan) == {9: [103]}


@pytest.mark.parametrize(("most", "shrinks"), [(6, True), (1, False)])
def test_nobody_shrinks_for_a_job_that_may_not_start(most, shrinks):
    owners = {1: "speech", 2: "speech", 9: "vision"}
    snapshot = owned(full(SHORT), owners, [limit("vision", maximum=most)])
    plan = plan_cycle(snapshot, ELASTIC)
    assert [one.job for one in plan.resizes] == [1] * shrinks
    assert stops(plan) == [] and (9 in starts(plan)) == shrinks


def test_jobs_grow_where_nobody_waits_though_somebody_does_elsewhere():
    lines = ("a 11", "b ..", "c 33 pool=other")
    drawn = draw(*lines, jobs=[job(9, "1x2", pool="other", limit_s=1000 * HOUR_S)])
    snapshot = elastic(
        running(drawn, job(1, "2x2", limit_s=100 * HOUR_S), job(3, "1x2", limit_s=HOUR_S)), 1
    )
    assert resizes(snapshot, ELASTIC) == [(1, 1, 2, None)]


def test_nobody_grows_where_somebody_was_stopped():
    """Job 1 stops for a shorter one and waits; what is free is not given to job 2 meanwhile."""
    drawn = draw("a 1111", "b 22", "c ..", jobs=[job(9, "1x3", limit_s=60)])
    rigid, wide = job(1, "1x4", limit_s=100 * HOUR_S), job(2, "2x2", limit_s=100 * HOUR_S)
    plan = plan_cycle(elastic(running(drawn, rigid, wide), 1), ELASTIC)
    assert stops(plan) == [(1, 9)] and plan.resizes == ()


def test_by_what_it_has_it_is_worth_more_than_one_that_stops():
    """It would like three nodes, which is more than there are; yet the other has more left."""
    drawn = draw("a 11", "b 22", jobs=[SHORT])
    snapshot = running(drawn, job(1, "3x2", limit_s=HOUR_S), job(2, "1x2", limit_s=9 * HOUR_S))
    assert stops(plan_cycle(elastic(snapshot, 1), ELASTIC)) == [(2, 9)]


def test_gpus_apart_on_many_nodes_make_nobody_of_a_higher_tier_shrink():
    drawn = draw("a 1.", "b 1.", jobs=[SHORT])
    above = elastic(running(drawn, job(1, "2x1", tier=Tier.URGENT, limit_s=10 * HOUR_S)), 1)
    assert resizes(above, ELASTIC) == [] and starts(plan_cycle(above, ELASTIC)) == {}
    equal = elastic(running(drawn, job(1, "2x1", limit_s=10 * HOUR_S)), 1)
    assert resizes(equal, ELASTIC) == [(1, 2, 1, 9)]


def test_a_node_that_has_room_already_is_not_given():
    drawn = draw("a 1..4", "b 1..4", "c 1...", jobs=[job(9, "2x3", limit_s=60)])
    jobs = job(1, "3x1", limit_s=100 * HOUR_S), job(4, "2x1", limit_s=HOUR_S)
    plan = plan_cycle(elastic(running(drawn, *jobs), 1), ELASTIC)
    (resize,) = [one for one in plan.resizes if one.job == 1]
    assert resize.nodes == 2 and 103 in {placement.node for placement in resize.placements}
    assert stops(plan) == [] and starts(plan).keys() == {9}


def test_who_moves_goes_on_with_as_many_nodes_as_it_has():
    """Job 1 would like four nodes, has one, and leaves it for a wider job."""
    drawn = draw("a 1..", "b 22.", jobs=[job(9, "1x3", limit_s=60)])
    jobs = job(1, "4x1", limit_s=HOUR_S), job(2, "1x2", limit_s=HOUR_S)
    plan = plan_cycle(elastic(running(drawn, *jobs), 1), ELASTIC)
    assert stops(plan) == [(1, 9)] and starts(plan) == {9: [101], 1: [102]}


def test_counts_that_do_not_come_true_are_not_relied_on():
    """No node is whole however job 1 shrinks: one beside it moves, and it has what is left."""
    drawn = draw("a 12", "b 13", "c 14", jobs=[SHORT])
    small = [job(number, "1x1", limit_s=HOUR_S) for number in (2, 3, 4)]
    snapshot = elastic(running(drawn, job(1, "3x1", limit_s=100 * HOUR_S), *small), 1)
    plan = plan_cycle(snapshot, ELASTIC)
    ((moved, beneficiary),) = stops(plan)
    assert beneficiary == 9 and moved != 1 and starts(plan).keys() == {9, moved}
    assert resizes(snapshot, ELASTIC) == [(1, 3, 1, 9)]


def test_who_was_to_stop_goes_on_with_what_nobody_took():
    """The wide newcomer that counts let in finds no node, because job 5 may not be moved."""
    waiting = [job(8, "1x2", limit_s=70), job(9, "1x1", limit_s=60)]
    drawn = draw("a 15", "b 15", "c 15", jobs=waiting)
    jobs = job(1, "3x1", limit_s=100 * HOUR_S), job(5, "3x1", limit_s=HOUR_S)
    snapshot = elastic(live(drawn, *jobs, ran_s=[HOUR_S, 5], least_s=[0, HOUR_S]), 1)
    assert resizes(snapshot, ELASTIC) == [(1, 3, 2, 9)]
    assert stops(plan_cycle(snapshot, ELASTIC)) == []


def test_what_was_given_in_vain_is_given_back():
    """Job 1 gives a node first; job 2 cannot give the one that is missing, but two."""
    drawn = draw("a 22", "b 22", "c 22", "d 11", "e 11", jobs=[job(9, "2x2", limit_s=60)])
    jobs = job(1, "2x2", limit_s=100 * HOUR_S), job(2, "3x2", limit_s=100 * HOUR_S)
    alive = live(drawn, *jobs, checkpoint_age_s=[1, HOUR_S], ran_s=[HOUR_S, HOUR_S])
    assert resizes(elastic(alive, 1), ELASTIC) == [(1, 2, 1, 9), (2, 3, 2, 9)]
    snapshot = elastic(alive, 1, (1, 3))
    assert snapshot.running is not None
    columns = replace(snapshot.running.jobs, sizes=ints([NONE, 0]))
    snapshot = replace(snapshot, running=replace(snapshot.running, jobs=columns))
    assert resizes(snapshot, ELASTIC) == [(2, 3, 1, 9)]


def test_one_stopped_by_its_own_accounts_limit_does_not_linger():
    """Beside the newcomer its team may not have even the least of job 1."""
    drawn = draw("a ..", *(f"{name} 11" for name in "bcde"), jobs=[job(9, "3x2", limit_s=60)])
    snapshot = elastic(running(drawn, job(1, "4x2", limit_s=100 * HOUR_S)), 2)
    shared = owned(snapshot, {1: "speech", 9: "speech"}, [limit("speech", maximum=8)])
    plan = plan_cycle(shared, ELASTIC)
    assert stops(plan) == [(1, 9)] and starts(plan).keys() == {9} and plan.resizes == ()


@st.composite
def whole_nodes(drawing: st.DrawFn) -> Snapshot:
    """Jobs on whole nodes, some elastic, and a queue: counts of nodes say all that there is."""
    sizes = drawing(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    free = drawing(st.integers(0, 2))
    marks = [mark for mark, size in zip("1234", sizes, strict=False) for _ in range(size)]
    lines = [f"n{at} {mark * 2}" for at, mark in enumerate([*marks, *("." * free)])]
    tiers = st.sampled_from([Tier.NORMAL, Tier.URGENT])
    lengths = st.sampled_from([60, 7200, 90_000])
    runs = [
        job(number, f"{size}x2", tier=drawing(tiers), limit_s=drawing(lengths))
        for number, size in enumerate(sizes, 1)
    ]
    waits = [
        job(
            100 + at,
            f"{drawing(st.integers(1, 4))}x2",
            tier=drawing(tiers),
            limit_s=drawing(lengths),
        )
        for at in range(drawing(st.integers(1, 4)))
    ]
    snapshot = elastic(running(draw(*lines, jobs=waits), *runs), 1)
    assert snapshot.running is not None
    jobs = snapshot.running.jobs
    least = [drawing(st.integers(0, int(size))) for size in jobs.nodes]
    jobs = replace(jobs, nodes_min=np.array(least, dtype=np.int64))
    return replace(snapshot, running=replace(snapshot.running, jobs=jobs))


@given(whole_nodes(), st.sampled_from([Order.SHORTEST, Order.LAS]))
def test_nobody_stops_while_an_elastic_job_of_its_tier_could_give_enough(snapshot, order):
    plan, jobs = plan_cycle(snapshot, replace(ELASTIC, order=order)), snapshot.running.jobs
    resized = {one.job: one.nodes for one in plan.resizes}
    stopped = {stop.job for stop in plan.stops}
    restarted = {start.job: len(start.placements) for start in plan.starts}
    assert not stopped & resized.keys()
    columns = (jobs.id, jobs.nodes, jobs.nodes_min, jobs.tier)
    table = {row[0]: row[1:] for row in zip(*(column.tolist() for column in columns), strict=True)}
    for number in stopped - restarted.keys():
        size, least, tier = table[number]
        spare = sum(
            resized.get(other, has) - minimum
            for other, (has, minimum, its_tier) in table.items()
            if minimum and its_tier == tier and other not in stopped
        )
        assert spare < (least or size)


@given(whole_nodes(), st.sampled_from([Order.SHORTEST, Order.LAS]))
def test_who_shrinks_stays_on_its_own_nodes_and_the_others_do_not_touch_them(snapshot, order):
    plan = plan_cycle(snapshot, replace(ELASTIC, order=order))
    held = snapshot.held
    for one in plan.resizes:
        own = set(snapshot.nodes.id[held.node[held.job == one.job]].tolist())
        stays = {placement.node for placement in one.placements}
        if one.beneficiary is not None:
            assert one.nodes < one.was and stays < own and one.beneficiary != one.job
        assert len(stays) == one.nodes
        for start in plan.starts:
            assert not stays & {placement.node for placement in start.placements}
