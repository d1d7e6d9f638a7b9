"""The engine under the fake clock, on traces small enough to work out by hand."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan, PlannedPlacement, Start, Waits
from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import Snapshot, floats, ints
from scheduler.simulator.judging.figures import figures_of
from scheduler.simulator.replay import Outcome, replay
from scheduler.simulator.workload import Workload
from scheduler.simulator.world import PlanRefused, World

FIFO = Policy(order=Order.FIFO, head_patience_s=0, backfill_slack_s=0)
SHORTEST = Policy(order=Order.SHORTEST, head_patience_s=0, backfill_slack_s=0)
PREEMPT = Policy(order=Order.SHORTEST, head_patience_s=0, backfill_slack_s=0, preempts=True)
LAS = Policy(order=Order.LAS, head_patience_s=0, backfill_slack_s=0, preempts=True)

# submit, run, gpus
FIVE = [(0, 100, 3), (10, 50, 2), (20, 60, 1), (30, 100, 1), (90, 10, 3)]


def workload(jobs, *, per_node: int = 4, declared=None) -> Workload:
    submit, run, gpus = zip(*jobs, strict=True)
    return Workload(per_node, floats(submit), floats(run), floats(declared or run), ints(gpus))


def ends(outcome: Outcome) -> list[float]:
    return outcome.end_s.tolist()


def test_first_come_first_served_fills_the_gaps_without_delaying_the_head():
    """On one node of four: the second job is kept room for at 100, the third is gone by then, the
    fourth fits beside it, the fifth follows it. EASY backfilling gives the same ends.
    """
    assert ends(replay(workload(FIVE), 1, FIFO)) == [100, 150, 80, 180, 160]


def test_shortest_first_lets_the_last_job_pass_the_second():
    """At 100 three GPUs are free: ten seconds on three come before fifty on two."""
    assert ends(replay(workload(FIVE), 1, SHORTEST)) == [100, 160, 80, 180, 110]


def test_a_run_that_outlives_its_word_still_ends_when_its_work_is_done():
    work = workload([(0, 100, 4), (10, 10, 4)], declared=[5, 10])
    assert ends(replay(work, 1, FIFO)) == [100, 110]


def test_nobody_knows_how_long_and_all_still_end():
    work = workload(FIVE, declared=[np.inf] * 5)
    assert replay(work, 1, SHORTEST).end_s.max() == 180


def test_a_wide_job_takes_whole_nodes_and_one_part():
    """Six GPUs on nodes of four: one node whole, two of the next; two are left for the other."""
    assert ends(replay(workload([(0, 10, 6), (0, 20, 2), (0, 10, 1)]), 2, FIFO)) == [10, 20, 20]


def test_figures_of_the_five():
    work = workload(FIVE)
    figures = figures_of([(work, 1, replay(work, 1, FIFO))])
    assert figures.avg_jct_s == 104.0
    assert figures.avg_queue_s == 40.0
    assert (figures.makespan_s, figures.max_wait_s) == (180, 90)
    assert figures.bound_s <= figures.avg_jct_s
    assert figures.avg_queue_ge8_s == 0


@pytest.mark.parametrize("policy", [FIFO, SHORTEST])
def test_a_recorded_snapshot_replays_to_the_same_plan(policy: Policy):
    records: list[tuple[bytes, str]] = []

    def keep(snapshot: Snapshot, plan: Plan) -> None:
        records.append((pickle.dumps(snapshot), said(plan)))

    replay(workload(FIVE), 1, policy, watch=keep)
    assert len(records) > 5
    for snapshot, expected in records:
        assert said(plan_cycle(pickle.loads(snapshot), policy)) == expected


def said(plan: Plan) -> str:
    return repr((plan.starts, plan.stops, plan.reservations, list(plan.iter_waits())))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (Start(2, (PlannedPlacement(1, 0, (1,), 0, 0),)), "does not wait"),
        (Start(1, (PlannedPlacement(1, 0, (1, 2), 0, 0),)), "does not get the GPUs"),
        (Start(1, (PlannedPlacement(2, 0, (1, 2, 3), 0, 0),)), "another node"),
    ],
)
def test_a_plan_that_contradicts_the_world_is_refused(start: Start, words: str):
    world = World(workload([(0, 10, 3), (5, 10, 1)]), 2)
    world.arrive(0)
    none = Waits(ints([]), ints([]), ints([]), floats([]), ())
    with pytest.raises(PlanRefused, match=words):
        world.apply(Plan((start,), (), none))


jobs_ = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 100), st.integers(1, 12)), min_size=1, max_size=15
).map(sorted)


@given(jobs_, st.sampled_from([FIFO, SHORTEST]), st.floats(0.2, 5))
def test_every_job_runs_once_whole_and_no_mean_beats_the_bound(jobs, policy, factor):
    work = workload(jobs, declared=[run * factor for _, run, _ in jobs])
    outcome = replay(work, 3, policy)
    assert np.allclose(outcome.end_s, work.submit_s + outcome.waited_s + work.run_s)
    figures = figures_of([(work, 3, outcome)])
    assert figures.bound_s <= figures.avg_jct_s + 0.1


@given(jobs_, st.integers(1, 5), st.floats(1, 5), st.sampled_from([0, 7]))
def test_no_head_ever_starts_later_than_it_was_told(jobs, heads, factor, slack):
    """If nobody runs longer than declared, planned starts only move forward, of every head."""
    told: dict[int, float] = {}

    def check(snapshot: Snapshot, plan: Plan) -> None:
        kept = {head.job: head.start_s for head in plan.reservations}
        for job, start_s in kept.items():
            assert start_s <= told.get(job, np.inf) + 1e-6
        for start in plan.starts:
            assert snapshot.now_s <= told.get(start.job, np.inf) + 1e-6
        told.update(kept)

    work = workload(jobs, declared=[run * factor for _, run, _ in jobs])
    policy = replace(FIFO, heads=heads, backfill_slack_s=slack)
    replay(work, 3, policy, watch=check)


def test_a_stop_costs_extra_work_and_a_move_as_well():
    """The long job runs 10 s, stops for the short one, and does its restart of 30 s as well."""
    work = workload([(0, 100, 4), (10, 20, 4)])
    outcome = replay(work, 1, PREEMPT)
    assert ends(outcome) == [30 + 90 + 30, 30]
    assert outcome.preemptions == 1
    assert outcome.waited_s.tolist() == [20, 0]


@given(jobs_, st.sampled_from([PREEMPT, LAS]))
def test_with_preemption_all_work_is_done_and_every_stop_paid(jobs, policy):
    work = workload(jobs)
    outcome = replay(work, 3, policy)
    paid_s = outcome.end_s - work.submit_s - outcome.waited_s - work.run_s
    assert (paid_s >= -1e-6).all()
    assert outcome.preemptions * 7 <= paid_s.sum() + 1e-6 <= outcome.preemptions * 60 + 1e-3
    figures = figures_of([(work, 3, outcome)])
    assert figures.bound_s <= figures.avg_jct_s + 0.1
