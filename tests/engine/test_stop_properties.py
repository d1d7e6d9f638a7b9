"""What holds whoever is stopped for whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Snapshot, floats, ints
from scheduler.simulator.replay import Replay
from scheduler.simulator.workload import Workload
from scheduler.states import Tier
from tests.builders import draw, job
from tests.engine.stopping import PROMISED, TIERS, claimed, live, stops, without

LIVE = "123456"


@st.composite
def mixed(drawing: st.DrawFn) -> Snapshot:
    """Up to four nodes with jobs of all tiers, gangs among them, and a queue."""
    lines = []
    for number in range(drawing(st.integers(1, 4))):
        marks = drawing(st.text(".." + LIVE, min_size=4, max_size=4))
        state = drawing(st.sampled_from(["", "", "", "draining"]))
        lines.append(f"n{number} {marks} {state} cpus={drawing(st.sampled_from([8, 16]))}")
    counts = {mark: [line.split()[1].count(mark) for line in lines] for mark in LIVE}
    tiers = st.sampled_from(list(Tier))
    running_jobs = []
    for mark, per_node in counts.items():
        if any(per_node):
            spans = sum(count > 0 for count in per_node)
            shape = f"{spans}x{max(per_node)}"
            running_jobs.append(job(int(mark), shape, tier=drawing(tiers)))
    waiting = [
        job(
            number + 100,
            drawing(st.sampled_from(["1x0", "1x1", "1x2", "1x3", "1x4", "2x2", "2x4", "2x4+2"])),
            tier=drawing(tiers),
            waited=drawing(st.sampled_from([0, 5, 900])),
            cpus=drawing(st.sampled_from([1, 4])),
        )
        for number in range(drawing(st.integers(0, 7)))
    ]
    size = len(running_jobs)

    def column(*values: float) -> list[float]:
        return [drawing(st.sampled_from(values)) for _ in range(size)]

    return live(
        draw(*lines, jobs=waiting),
        *running_jobs,
        ran_s=column(10, 700, 9000),
        checkpoint_age_s=column(10, 300, float("inf")),
        least_s=column(0, 1000),
        rested_s=column(100, float("inf")),
    )


def tier_of(snapshot: Snapshot) -> dict[int, int]:
    assert snapshot.running is not None
    tables = (snapshot.waiting, snapshot.running.jobs)
    return {
        number: tier
        for table in tables
        for number, tier in zip(table.id.tolist(), table.tier.tolist(), strict=True)
    }


@given(mixed())
def test_a_victim_never_outranks_its_beneficiary_and_promises_are_kept(snapshot):
    plan = plan_cycle(snapshot, PROMISED)
    tier, running = tier_of(snapshot), snapshot.running
    row_of = {number: row for row, number in enumerate(running.jobs.id.tolist())}
    for stop in plan.stops:
        assert tier[stop.job] < tier[stop.beneficiary]
        row = row_of[stop.job]
        assert running.ran_s[row] >= max(600, running.least_s[row])
        assert running.rested_s[row] >= 1800


@given(mixed())
def test_nobody_is_stopped_for_nothing(snapshot):
    """Had any one of the victims stayed, the first beneficiary could not start."""
    plan = plan_cycle(snapshot, TIERS)
    stopped = [stop.job for stop in plan.stops]
    assert len(stopped) == len(set(stopped))
    if not plan.stops:
        return
    alone = snapshot.only(ints(np.flatnonzero(snapshot.waiting.id == plan.stops[0].beneficiary)))
    alone = replace(alone, running=snapshot.running)
    victims = [stop.job for stop in plan_cycle(alone, TIERS).stops]
    for victim in victims:
        rest = without(alone, [number for number in victims if number != victim])
        assert plan_cycle(rest).starts == ()
    assert not victims or plan_cycle(without(alone, victims)).starts


@given(mixed())
def test_starts_use_what_is_free_or_given_up_and_everybody_has_one_answer(snapshot):
    plan = plan_cycle(snapshot, TIERS)
    answered = [start.job for start in plan.starts] + [wait.job for wait in plan.iter_waits()]
    assert sorted(answered) == sorted(snapshot.waiting.id.tolist())
    stopped = {stop.job for stop in plan.stops}
    holder = snapshot.devices.holder
    owner = np.append(snapshot.held.job, NONE)[holder]
    row_of = {number: row for row, number in enumerate(snapshot.devices.id.tolist())}
    given_out: list[int] = []
    waiting = snapshot.waiting
    at_work = set(snapshot.nodes.id[snapshot.nodes.takes_work].tolist())
    for start in plan.starts:
        row = int(np.flatnonzero(waiting.id == start.job)[0])
        part = int(waiting.part_gpus[row])
        shares = [int(waiting.gpus_per_node[row])] * int(waiting.nodes[row]) + [part] * (part > 0)
        assert [len(p.devices) for p in start.placements] == shares
        assert {p.node for p in start.placements} <= at_work
        for device in [device for p in start.placements for device in p.devices]:
            mine = {s.job for s in plan.stops if s.beneficiary == start.job}
            assert owner[row_of[device]] in (mine | {NONE})
            given_out.append(device)
    assert len(given_out) == len(set(given_out))
    assert {stop.beneficiary for stop in plan.stops} <= {start.job for start in plan.starts}
    assert stopped <= set(snapshot.running.jobs.id.tolist())


@given(mixed())
def test_the_room_is_kept_whoever_else_waits_and_taken_up_when_it_is_there(snapshot):
    first = plan_cycle(snapshot, TIERS)
    beneficiaries = {stop.beneficiary for stop in first.stops}
    meant = {s.job: s.placements for s in first.starts if s.job in beneficiaries}
    kept = {device for placements in meant.values() for p in placements for device in p.devices}
    during = plan_cycle(claimed(snapshot, first), TIERS)
    for start in during.starts:
        assert start.job not in beneficiaries
        assert not kept & {device for p in start.placements for device in p.devices}
    assert not {stop.beneficiary for stop in during.stops} & beneficiaries
    after = plan_cycle(claimed(snapshot, first, gone=True), TIERS)
    began = {start.job: start for start in after.starts}
    for number, placements in meant.items():
        assert began[number].placements == placements
    others = [s for s in after.starts if s.job not in beneficiaries]
    assert not kept & {d for s in others for p in s.placements for d in p.devices}


@given(mixed(), st.randoms(use_true_random=False))
def test_the_same_whatever_order_the_rows_come_in(snapshot, random):
    expected = plan_cycle(snapshot, TIERS)
    rows = list(range(len(snapshot.running.jobs)))
    random.shuffle(rows)
    shuffled = replace(snapshot, running=snapshot.running.take(ints(rows)))
    again = plan_cycle(shuffled, TIERS)
    assert again.starts == expected.starts
    assert sorted(stops(again)) == sorted(stops(expected))


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 900.0]))
def test_nobody_is_thrashed_in_a_replay(seed, rest_s):
    """Between two stops of a job lies its rest, and before each stop its promised run."""
    draws = np.random.default_rng(seed)
    size = 40
    work = Workload(
        gpus_per_node=4,
        submit_s=floats(np.sort(draws.integers(0, 6000, size=size))),
        run_s=floats(draws.integers(60, 3000, size=size)),
        declared_s=floats(draws.integers(60, 6000, size=size)),
        gpus=ints(draws.choice([1, 2, 4, 8], size=size)),
        tier=ints(draws.choice([int(tier) for tier in Tier], size=size)),
    )
    policy = Policy(preempts=True, min_run_s=300, rest_s=rest_s, head_patience_s=0)
    seen: list[tuple[float, int]] = []
    started: dict[int, float] = {}

    def watch(snapshot: Snapshot, plan: Plan) -> None:
        for stop in plan.stops:
            assert snapshot.now_s - started[stop.job] >= 300
            earlier = [at for at, number in seen if number == stop.job]
            assert not earlier or snapshot.now_s - earlier[-1] >= rest_s
            seen.append((snapshot.now_s, stop.job))
        started.update({start.job: snapshot.now_s for start in plan.starts})

    run = Replay(work, 3, policy, watch=watch)
    while run.next_s() < np.inf:
        run.step()
    outcome = run.outcome()
    assert outcome.preemptions == len(seen)
    assert np.isfinite(outcome.end_s).all()
