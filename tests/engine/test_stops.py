"""Whom a job of a higher tier may stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.preempting.stakes import lost_work_s
from scheduler.engine.snapshot import flags, ints
from scheduler.states import Tier
from tests.builders import draw, job
from tests.engine.stopping import PROMISED, TIERS, live, starts, stops

URGENT = Tier.URGENT


def test_an_urgent_job_stops_a_normal_one_and_the_plan_says_who_for_whom_and_why():
    snapshot = draw("a 1111", jobs=[job(2, "1x4", tier=URGENT)])
    snapshot = live(snapshot, job(1, "1x4"), ran_s=[900], checkpoint_age_s=[120])
    plan = plan_cycle(snapshot, TIERS)
    (stop,) = plan.stops
    assert (stop.job, stop.beneficiary, str(stop.reason)) == (1, 2, "preempted")
    assert stop.facts == {"why": "tier", "tier": 10, "beneficiary_tier": 20, "lost_s": 120}
    assert starts(plan) == {2: [101]}


@pytest.mark.parametrize("tier", [Tier.NORMAL, Tier.EXPLORATORY])
def test_equals_and_lower_ones_stop_nobody_however_long_they_wait(tier: Tier):
    snapshot = live(draw("a 1111", jobs=[job(2, "1x4", tier=tier, waited=9e5)]), job(1, "1x4"))
    plan = plan_cycle(snapshot, TIERS)
    assert plan.stops == () and plan.starts == ()


def test_nobody_is_stopped_while_free_gpus_do():
    snapshot = live(draw("a 1111", "b ....", jobs=[job(2, "1x4", tier=URGENT)]), job(1, "1x4"))
    plan = plan_cycle(snapshot, TIERS)
    assert plan.stops == () and starts(plan) == {2: [102]}


def test_nobody_is_stopped_if_that_would_not_be_enough():
    snapshot = draw("a 1111", "b 2222", jobs=[job(3, "2x4", tier=URGENT)])
    plan = plan_cycle(live(snapshot, job(1, "1x4"), job(2, "1x4", tier=URGENT)), TIERS)
    assert plan.stops == ()


def test_who_loses_least_since_the_last_checkpoint_goes():
    snapshot = draw("a 1111", "b 2222", "c 3333", jobs=[job(4, "1x4", tier=URGENT)])
    jobs = [job(number, "1x4") for number in (1, 2, 3)]
    ages = [900.0, 30.0, 500.0]
    plan = plan_cycle(live(snapshot, *jobs, ran_s=[5000] * 3, checkpoint_age_s=ages), TIERS)
    assert stops(plan) == [(2, 4)]


def test_lost_work_of_a_higher_tier_counts_more():
    """Job 1 would lose 300 s, job 2 of the lowest tier 500 s: half of that counts."""
    snapshot = draw("a 1111", "b 2222", jobs=[job(3, "1x4", tier=URGENT)])
    jobs = [job(1, "1x4"), job(2, "1x4", tier=Tier.EXPLORATORY)]
    ages = [300.0, 500.0]
    plan = plan_cycle(live(snapshot, *jobs, ran_s=[5000] * 2, checkpoint_age_s=ages), TIERS)
    assert stops(plan) == [(2, 3)]


def test_who_never_reported_is_taken_at_the_median_age_and_nobody_loses_more_than_it_ran():
    jobs = [job(number) for number in (1, 2, 3, 4, 5)]
    ages = [100.0, 300.0, 900.0, np.inf, np.inf]
    ran = [5000.0, 5000.0, 500.0, 5000.0, 50.0]
    running = live(draw("a"), *jobs, ran_s=ran, checkpoint_age_s=ages).running
    assert running is not None
    assert lost_work_s(running).tolist() == [100, 300, 500, 300, 50]


def test_if_nobody_reports_everything_since_the_start_counts():
    running = live(draw("a"), job(1), ran_s=[700], checkpoint_age_s=[np.inf]).running
    assert running is not None
    assert lost_work_s(running).tolist() == [700]


def test_the_promised_run_time_is_kept():
    snapshot = draw("a 1111", jobs=[job(2, "1x4", tier=URGENT)])
    for ran, least, stopped in [(599, 0, 0), (600, 0, 1), (3000, 3600, 0), (3600, 3600, 1)]:
        plan = plan_cycle(live(snapshot, job(1, "1x4"), ran_s=[ran], least_s=[least]), PROMISED)
        assert len(plan.stops) == stopped, (ran, least)
        assert len(plan.waits) == 1 - stopped


def test_who_was_stopped_a_moment_ago_is_left_alone():
    snapshot = draw("a 1111", jobs=[job(2, "1x4", tier=URGENT)])
    for rested, stopped in [(1799, 0), (1800, 1)]:
        plan = plan_cycle(live(snapshot, job(1, "1x4"), ran_s=[900], rested_s=[rested]), PROMISED)
        assert len(plan.stops) == stopped, rested


def test_one_large_job_goes_rather_than_many_small_ones_if_they_lose_more():
    snapshot = draw("a 1234", "b 5555", jobs=[job(6, "1x4", tier=URGENT)])
    jobs = [job(number) for number in (1, 2, 3, 4)] + [job(5, "1x4")]
    ages = [400.0] * 4 + [100.0]
    plan = plan_cycle(live(snapshot, *jobs, ran_s=[9000] * 5, checkpoint_age_s=ages), TIERS)
    assert stops(plan) == [(5, 6)]


def test_a_gang_that_is_stopped_anyway_gives_all_its_nodes():
    """Job 1 holds two nodes: stopping it alone is cheaper than it and one of the others."""
    snapshot = draw("a 1111", "b 2222", "c 1111", "d 3333", jobs=[job(4, "2x4", tier=URGENT)])
    jobs = [job(1, "2x4"), job(2, "1x4"), job(3, "1x4")]
    ages = [100.0, 90.0, 150.0]
    plan = plan_cycle(live(snapshot, *jobs, ran_s=[9000] * 3, checkpoint_age_s=ages), TIERS)
    assert stops(plan) == [(1, 4)]
    assert starts(plan) == {4: [101, 103]}


def test_who_need_not_go_after_all_stays():
    """The small ones are cheaper per GPU, but the one of three GPUs makes the room by itself."""
    snapshot = draw("a 2111", jobs=[job(4, "1x3", tier=URGENT)])
    jobs = [job(1, "1x3"), job(2, "1x1")]
    plan = plan_cycle(live(snapshot, *jobs, ran_s=[9000] * 2, checkpoint_age_s=[500, 10]), TIERS)
    assert stops(plan) == [(1, 4)]


def test_cpus_and_memory_count_as_well():
    """Job 1 holds one GPU and all the cpus; the other GPUs are free."""
    snapshot = draw("a 1...", jobs=[job(2, "1x3", cpus=4, tier=URGENT)], held_cpus=62)
    assert stops(plan_cycle(live(snapshot, job(1, cpus=62)), TIERS)) == [(1, 2)]


def test_gpus_of_another_model_help_nobody():
    snapshot = draw("a 1111 model=A100", "b 2222", jobs=[job(3, "1x4", model="A100", tier=URGENT)])
    jobs = [job(1, "1x4"), job(2, "1x4")]
    assert stops(plan_cycle(live(snapshot, *jobs), TIERS)) == [(1, 3)]


def alone(snapshot, *jobs: int):
    """The snapshot, with the nodes of these jobs theirs alone."""
    held = snapshot.held
    is_exclusive = flags(np.isin(held.job, jobs))
    return replace(snapshot, held=replace(held, is_exclusive=is_exclusive))


def test_nobody_comes_beside_a_job_that_has_its_node_alone():
    """The fourth GPU of its node is in order again: who is urgent stops somebody elsewhere."""
    urgent = job(9, "1x1", tier=Tier.URGENT)
    snapshot = alone(draw("a 111.", "b 2222", jobs=[urgent]), 1)
    plan = plan_cycle(live(snapshot, job(2, "1x4", tier=Tier.EXPLORATORY)), TIERS)
    assert stops(plan) == [(2, 9)] and starts(plan) == {9: [102]}
    among = job(1, "1x3", tier=Tier.URGENT), job(2, "1x4", tier=Tier.EXPLORATORY)
    plan = plan_cycle(live(snapshot, *among), TIERS)
    assert stops(plan) == [(2, 9)] and starts(plan) == {9: [102]}


@pytest.mark.parametrize("shape", ["1x4", "2x4", "1x3"])
def test_who_stops_a_job_that_has_its_node_alone_gets_all_of_the_node(shape):
    wide = job(9, shape, tier=Tier.URGENT, cpus=60)
    snapshot = alone(draw("a 111.", "b 222.", jobs=[wide], held_cpus=2), 1, 2)
    among = [job(1, "1x3"), job(2, "1x3")]
    plan = plan_cycle(live(snapshot, *among), TIERS)
    assert len(stops(plan)) == len(starts(plan)[9]) == int(shape[0])


@pytest.mark.parametrize("cut", ["card", "is_shareable"])
@pytest.mark.parametrize(
    ("where", "stopped"),
    [("pool=other", True), ("model=A100", True), ("pool=default", False)],
)
def test_only_cut_cards_that_the_job_might_get_make_it_wait(cut: str, where: str, stopped: bool):
    """Of two teams: what is to spare on a cut card for one is not for the other."""
    urgent = job(9, "1x4", model="H100", tier=Tier.URGENT)
    snapshot = live(draw("a 1111", f"b .. {where}", jobs=[urgent]), job(1, "1x4"))
    whole = replace(
        snapshot,
        held=replace(snapshot.held, tenant=ints([0])),
        waiting=replace(snapshot.waiting, tenant=ints([1])),
    )
    column = getattr(whole.devices, cut).copy()
    column[-2:] = 1
    parts = replace(whole, devices=replace(whole.devices, **{cut: column}))
    assert stops(plan_cycle(whole, TIERS)) == [(1, 9)]
    assert stops(plan_cycle(parts, TIERS)) == [(1, 9)] * stopped


def test_nodes_kept_for_a_head_of_its_own_tier_are_left_alone():
    """Job 3 waits for both nodes until job 2, as urgent as itself, is over; job 4 comes later."""
    waiting = [job(3, "2x4", tier=URGENT, waited=5000), job(4, "1x4", tier=URGENT)]
    snapshot = draw("a 1111", "b 2222", jobs=waiting, ends={1: 9000, 2: 9000})
    snapshot = live(snapshot, job(1, "1x4"), job(2, "1x4", tier=URGENT))
    assert plan_cycle(snapshot, TIERS).stops == ()


def test_room_that_is_made_is_within_one_of_the_wider_groups() -> None:
    """No link group holds three; of the NUMA nodes the one that job 1 leaves does, though the
    largest free group is on the other."""
    urgent = job(9, "1x3", tier=Tier.URGENT)
    drawn = draw("a 1 1 1 | ..22", jobs=[urgent])
    plan = plan_cycle(live(drawn, job(1, "1x3"), job(2, "1x2", tier=Tier.URGENT)), TIERS)
    (start,) = plan.starts
    assert stops(plan) == [(1, 9)]
    assert start.placements[0].devices == (1001, 1002, 1003)
    flat = draw("a 1 1 1 ..22", jobs=[urgent])
    plan = plan_cycle(live(flat, job(1, "1x3"), job(2, "1x2", tier=Tier.URGENT)), TIERS)
    assert plan.starts[0].placements[0].devices == (1001, 1004, 1005)
