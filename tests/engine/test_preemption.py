"""Whom the engine stops, for whom, and where the others move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Order, Policy
from scheduler.engine.preempting.selection import choose_set
from scheduler.engine.snapshot import NONE, Running, Snapshot, flags, floats, ints
from scheduler.states import Tier
from tests.builders import DrawnJob, draw, job
from tests.engine import shaping

SHORTEST = Policy(order=Order.SHORTEST, preempts=True)
LAS = Policy(order=Order.LAS, preempts=True)


def running(snapshot: Snapshot, *jobs: DrawnJob, cost_s: float = 10) -> Snapshot:
    """The snapshot with these live jobs, drawn on it already, free to be stopped."""
    live = draw("a", jobs=jobs).waiting
    zeros = ints(np.zeros(len(live)))
    live = replace(live, pool=zeros, queue=zeros, queued_at_s=live.queued_at_s)
    return replace(
        snapshot, running=Running.of_jobs(live, restart_cost_s=floats([cost_s] * len(live)))
    )


def stops(plan: Plan) -> list[tuple[int, int]]:
    return [(stop.job, stop.beneficiary) for stop in plan.stops]


def starts(plan: Plan) -> dict[int, list[int]]:
    return {start.job: [p.node for p in start.placements] for start in plan.starts}


def test_a_long_job_makes_room_for_a_short_one():
    snapshot = draw("a 1111", jobs=[job(2, "1x4", limit_s=60)], held_cpus=1)
    plan = plan_cycle(running(snapshot, job(1, "1x4", limit_s=3600)), SHORTEST)
    assert stops(plan) == [(1, 2)]
    assert starts(plan) == {2: [101]}
    assert [wait.job for wait in plan.iter_waits()] == []


def test_a_nearly_finished_job_is_not_stopped_for_a_slightly_shorter_one():
    """What it would lose by stopping counts in its favour."""
    snapshot = draw("a 1111", jobs=[job(2, "1x4", limit_s=60)])
    plan = plan_cycle(running(snapshot, job(1, "1x4", limit_s=65), cost_s=10), SHORTEST)
    assert plan.stops == () and plan.starts == ()


def test_nothing_stops_unless_the_policy_says_so():
    snapshot = running(draw("a 1111", jobs=[job(2, limit_s=60)]), job(1, "1x4", limit_s=9999))
    assert plan_cycle(snapshot).stops == ()
    assert plan_cycle(snapshot, Policy(order=Order.SHORTEST)).stops == ()


def test_a_higher_tier_comes_first_however_long_it_runs():
    snapshot = draw("a 1111", jobs=[job(2, "1x4", limit_s=9999, tier=Tier.URGENT)])
    plan = plan_cycle(running(snapshot, job(1, "1x4", limit_s=60)), SHORTEST)
    assert stops(plan) == [(1, 2)]


def test_a_lower_tier_never_stops_a_higher_one():
    snapshot = draw("a 1111", jobs=[job(2, "1x4", limit_s=60)])
    live = job(1, "1x4", limit_s=9999, tier=Tier.URGENT)
    assert plan_cycle(running(snapshot, live), SHORTEST).stops == ()


def test_a_small_job_moves_so_that_a_whole_node_comes_free():
    """Four GPUs are free, two on each node: job 2 moves beside job 1, job 3 takes its node."""
    snapshot = draw("a 11..", "b 22..", jobs=[job(3, "1x4", limit_s=60)])
    live = [job(1, "1x2", limit_s=50), job(2, "1x2", limit_s=50)]
    plan = plan_cycle(running(snapshot, *live), SHORTEST)
    moved = stops(plan)
    assert [beneficiary for _, beneficiary in moved] == [3]
    places = starts(plan)
    assert set(places) == {3, moved[0][0]}
    assert places[3] != places[moved[0][0]]


def test_who_moves_is_told_by_counts():
    """Who asks for certain nodes, or for what counts do not tell, stays; the other one moves."""
    snapshot = draw("a 11..", "b 22..", jobs=[job(3, "1x4", limit_s=60)])
    live = [job(1, "1x2", limit_s=50), job(2, "1x2", limit_s=50)]
    both = running(snapshot, *live)
    assert both.running is not None
    jobs = both.running.jobs

    def told(**columns) -> list[tuple[int, int]]:
        changed = replace(both.running, jobs=replace(jobs, **columns))
        masks = shaping.mask(".x", "x.")
        return stops(plan_cycle(replace(both, running=changed, node_masks=masks), SHORTEST))

    assert told(mask=ints([0, NONE])) == [(2, 3)]
    assert told(mask=ints([NONE, 1])) == [(1, 3)]
    assert told(mask=ints([0, 1])) == []
    for name in ("scratch_mib", "is_exclusive"):
        column = getattr(jobs, name).copy()
        column[0] = 1
        assert told(**{name: column}) == [(2, 3)]


def test_nobody_comes_beside_who_has_its_node_alone():
    snapshot = draw("a 11..", "b 2222", jobs=[job(3, "1x2", limit_s=60)])
    snapshot = replace(
        snapshot, held=replace(snapshot.held, is_exclusive=flags(snapshot.held.job == 1))
    )
    live = [job(1, "1x2", limit_s=50), job(2, "1x4", limit_s=9000)]
    plan = plan_cycle(running(snapshot, *live), SHORTEST)
    assert stops(plan) == [(2, 3)] and starts(plan) == {3: [102]}


def test_nobody_of_a_higher_tier_moves_for_a_wider_job():
    snapshot = draw("a 11..", "b 22..", jobs=[job(3, "1x4", limit_s=60)])
    live = [job(1, "1x2", tier=Tier.URGENT), job(2, "1x2", tier=Tier.URGENT)]
    plan = plan_cycle(running(snapshot, *live), SHORTEST)
    assert plan.stops == () and plan.starts == ()


def test_who_stops_for_the_order_is_told_for_whom_of_its_tier_or_a_higher_one():
    """Job 4 is chosen for what job 3 held; what is left of that goes to job 2 of a lower tier."""
    waiting = [job(2, "1x1", tier=Tier.EXPLORATORY, limit_s=60), job(4, "1x3", limit_s=60)]
    plan = plan_cycle(running(draw("a 3333", jobs=waiting), job(3, "1x4", limit_s=9000)), SHORTEST)
    assert stops(plan) == [(3, 4)] and set(starts(plan)) == {2, 4}


def test_who_could_stay_beside_the_newcomer_stays():
    """Job 2 needs one GPU of four: only one of the two long jobs stops."""
    snapshot = draw("a 1133", jobs=[job(2, "1x1", limit_s=60)])
    live = [job(1, "1x2", limit_s=5000), job(3, "1x2", limit_s=6000)]
    assert stops(plan_cycle(running(snapshot, *live), SHORTEST)) == [(3, 2)]


def test_hidden_durations_let_the_fresh_job_go_before_the_old_one():
    snapshot = draw("a 1111", jobs=[job(2, "1x4")])
    old = job(1, "1x4", attained_s=50_000)
    assert stops(plan_cycle(running(snapshot, old), LAS)) == [(1, 2)]
    fresh = job(1, "1x4", attained_s=50)
    assert plan_cycle(running(snapshot, fresh), LAS).stops == ()


def test_what_was_learnt_counts_before_the_level():
    """The old job is nearly over as others tell; the fresh one's like are long."""
    snapshot = draw("a 1111", jobs=[job(2, "1x4")])
    old = running(snapshot, job(1, "1x4", attained_s=50_000))
    waiting = replace(old.waiting, learnt_s=floats([9000]))
    assert old.running is not None
    live = replace(old.running, jobs=replace(old.running.jobs, learnt_s=floats([60])))
    assert plan_cycle(replace(old, waiting=waiting, running=live), LAS).stops == ()


def test_the_set_worth_most_is_chosen_not_the_first_that_fits():
    """By order the job of six GPUs comes first and leaves two idle; two of four are worth more."""
    chosen = choose_set(ints([6, 4, 4]), floats([1.0, 0.8, 0.8]), 8)
    assert chosen.tolist() == [False, True, True]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), max_size=10), st.integers(0, 20))
def test_no_other_set_is_worth_more(items, capacity):
    gpus, value = ints([g for g, _ in items]), floats([v for _, v in items])
    chosen = choose_set(gpus, value, capacity)
    assert gpus[chosen].sum() <= capacity
    best = 0.0
    for mask in range(1 << len(items)):
        picked = [row for row in range(len(items)) if mask >> row & 1]
        if gpus[picked].sum() <= capacity:
            best = max(best, float(value[picked].sum()))
    assert value[chosen].sum() == pytest.approx(best)


def test_age_alone_stops_nobody():
    """With first come first served only a higher tier does; see `test_stops.py`."""
    snapshot = running(draw("a 1111", jobs=[job(2, waited=1e6, limit_s=60)]), job(1, "1x4"))
    assert plan_cycle(snapshot, Policy(order=Order.FIFO, preempts=True)).stops == ()


def test_promised_run_times_hold_here_too():
    snapshot = draw("a 1111", jobs=[job(2, "1x4", limit_s=60)], held_cpus=1)
    snapshot = running(snapshot, job(1, "1x4", limit_s=3600))
    promised = replace(SHORTEST, min_run_s=600)
    for ran_s, stopped in [(599.0, 0), (600.0, 1)]:
        assert snapshot.running is not None
        live = replace(snapshot.running, ran_s=floats([ran_s]))
        assert len(plan_cycle(replace(snapshot, running=live), promised).stops) == stopped


LIVE = "123456"


@st.composite
def busy(drawing: st.DrawFn) -> Snapshot:
    lines: list[str] = []
    live: dict[str, int] = {}

    def home(mark: str, number: int) -> bool:
        return live.setdefault(mark, number) == number

    for number in range(drawing(st.integers(1, 4))):
        marks = drawing(st.text(".." + LIVE, min_size=4, max_size=4))
        marks = "".join(
            m if m == "." or live.setdefault(m, number) == number else "." for m in marks
        )
        lines.append(f"n{number} {marks} cpus=16")
    shapes = {mark: sum(line.split()[1].count(mark) for line in lines) for mark in live}
    seconds = st.sampled_from([30, 60, 600, 7200])
    tiers = st.sampled_from([Tier.NORMAL, Tier.NORMAL, Tier.URGENT])
    jobs = [
        job(
            number + 100,
            drawing(st.sampled_from(["1x0", "1x1", "1x2", "1x3", "1x4", "2x4", "2x4+2"])),
            tier=drawing(tiers),
            limit_s=drawing(seconds),
            attained_s=drawing(st.sampled_from([0, 500, 9000])),
        )
        for number in range(drawing(st.integers(0, 8)))
    ]
    running_jobs = [
        job(int(mark), f"1x{shapes[mark]}", tier=drawing(tiers), limit_s=drawing(seconds))
        for mark in sorted(live)
    ]
    return running(draw(*lines, jobs=jobs), *running_jobs)


@given(busy(), st.sampled_from([SHORTEST, LAS]))
def test_whatever_is_rearranged_everything_stays_whole_and_within_its_share(snapshot, policy):
    plan = plan_cycle(snapshot, policy)
    assert snapshot.running is not None
    live = snapshot.running.jobs
    stopped = {stop.job for stop in plan.stops}
    assert stopped <= set(live.id.tolist())
    answered = [start.job for start in plan.starts] + [wait.job for wait in plan.iter_waits()]
    moved = [number for number in answered if number in stopped]
    assert sorted(set(answered) - set(moved)) == sorted(snapshot.waiting.id.tolist())
    holder = snapshot.devices.holder
    kept = ~np.isin(snapshot.held.job, list(stopped))
    free = {
        device
        for device, row in zip(snapshot.devices.id.tolist(), holder.tolist(), strict=True)
        if row == NONE or not kept[row]
    }
    for start in plan.starts:
        table = live if start.job in stopped else snapshot.waiting
        row = int(np.flatnonzero(table.id == start.job)[0])
        part = int(table.part_gpus[row])
        shares = [int(table.gpus_per_node[row])] * int(table.nodes[row]) + [part] * (part > 0)
        assert [len(p.devices) for p in start.placements] == shares
        for placement in start.placements:
            assert set(placement.devices) <= free
            free -= set(placement.devices)


@given(busy(), st.sampled_from([SHORTEST, LAS]))
def test_nobody_is_stopped_for_nothing(snapshot, policy):
    """Who stops has a beneficiary that starts, and no lower tier gains by it."""
    plan = plan_cycle(snapshot, policy)
    assert snapshot.running is not None
    started = {start.job for start in plan.starts}
    assert {stop.beneficiary for stop in plan.stops} <= started
    if not len(snapshot.waiting):
        assert plan.stops == ()
