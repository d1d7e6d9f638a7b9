"""Owners take back what they lent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import NONE, Snapshot, flags, ints
from scheduler.states import Tier
from tests.builders import DrawnJob, draw, job
from tests.engine.owners import DrawnLimit, limit, shared_by
from tests.engine.stopping import PROMISED, TIERS, live, starts, stops

TEAMS = ("org", "org/vision", "org/speech")


def lent(
    cluster: Snapshot,
    *running: DrawnJob,
    owners: Mapping[int, str],
    limits: list[DrawnLimit],
    tree: tuple[str, ...] = TEAMS,
    **columns: list[float],
) -> Snapshot:
    """The drawn cluster with accounts, limits, and these live jobs."""
    snapshot = shared_by(live(cluster, *running, **columns), *tree, owners=owners, limits=limits)
    assert snapshot.running is not None
    names = list(snapshot.account_names)
    jobs = snapshot.running.jobs
    account = [names.index(owners[n]) if n in owners else NONE for n in jobs.id.tolist()]
    return replace(
        snapshot, running=replace(snapshot.running, jobs=replace(jobs, account=ints(account)))
    )


@pytest.mark.parametrize("lend", [NONE, 0])
def test_a_guarantee_of_one_model_holds_where_the_pool_is_full(lend: int) -> None:
    """The other team holds all of the pool, of which it is guaranteed a part."""
    snapshot = lent(
        draw(
            "a 1122 model=H100",
            "b 3344 model=A100",
            jobs=[job(5, "1x2", model="H100"), job(6, "1x2", model="A100")],
        ),
        *(job(number, "1x2") for number in (1, 2, 3, 4)),
        owners={1: "speech", 2: "speech", 3: "speech", 4: "speech", 5: "vision", 6: "vision"},
        limits=[limit("vision", guaranteed=2, model="H100"), limit("speech", 2, lend=lend)],
    )
    plan = plan_cycle(snapshot, TIERS)
    ((victim, for_whom),) = stops(plan)
    assert victim in (1, 2) and for_whom == 5
    assert starts(plan) == {5: [101]}


@pytest.mark.parametrize("others", [False, True])
def test_an_owner_takes_back_by_every_limit_that_it_is_within(others: bool) -> None:
    """Speech borrows H100 alone; audio borrows of all models, on an A100, which is of no use."""
    limits = [
        limit("vision", guaranteed=2),
        limit("speech", guaranteed=4),
        limit("vision", guaranteed=2, model="H100"),
        limit("speech", guaranteed=2, model="H100"),
    ]
    snapshot = lent(
        draw(
            "a 1122 model=H100",
            f"b {'3' if others else '.'}... model=A100",
            jobs=[job(5, "1x2", model="H100"), job(6, "1x1", model="H100")],
        ),
        *(job(1, "1x2"), job(2, "1x2"), *([job(3)] if others else [])),
        owners={1: "speech", 2: "speech", 3: "audio", 5: "vision", 6: "vision"},
        limits=limits,
        tree=(*TEAMS, "org/audio"),
        ran_s=[9000, 700, 700][: 2 + others],
        checkpoint_age_s=[600, 10, 0][: 2 + others],
    )
    assert stops(plan_cycle(snapshot, TIERS)) == [(2, 5)]


def test_the_newest_of_what_is_borrowed_is_given_back_and_says_to_whom() -> None:
    snapshot = lent(
        draw("a 1122", jobs=[job(5, "1x2")]),
        job(1, "1x2"),
        job(2, "1x2"),
        owners={1: "speech", 2: "speech", 5: "vision"},
        limits=[limit("vision", guaranteed=2), limit("speech", guaranteed=2)],
        ran_s=[9000, 700],
        checkpoint_age_s=[10, 600],
    )
    plan = plan_cycle(snapshot, TIERS)
    assert stops(plan) == [(2, 5)] and starts(plan) == {5: [101]}
    assert plan.stops[0].facts == {
        "why": "reclaim",
        "given_back_to": "vision",
        "tier": 10,
        "beneficiary_tier": 10,
        "lost_s": 600,
    }
    assert plan_cycle(snapshot, Policy()).stops == ()


def test_who_takes_back_does_not_come_beside_a_job_that_has_its_node_alone() -> None:
    snapshot = lent(
        draw("a 111.", "b 2222", jobs=[job(5, "1x1")]),
        job(1, "1x3"),
        job(2, "1x4"),
        owners={1: "vision", 2: "speech", 5: "vision"},
        limits=[limit("vision", guaranteed=4), limit("speech", guaranteed=0)],
    )
    is_exclusive = flags(snapshot.held.job == 1)
    snapshot = replace(snapshot, held=replace(snapshot.held, is_exclusive=is_exclusive))
    plan = plan_cycle(snapshot, TIERS)
    assert stops(plan) == [(2, 5)] and starts(plan) == {5: [102]}


def test_among_the_borrowed_who_loses_least_goes() -> None:
    snapshot = lent(
        draw("a 1122", jobs=[job(5, "1x2")]),
        job(1, "1x2"),
        job(2, "1x2"),
        owners={1: "speech", 2: "speech", 5: "vision"},
        limits=[limit("vision", guaranteed=2)],
        ran_s=[9000, 700],
        checkpoint_age_s=[10, 600],
    )
    assert stops(plan_cycle(snapshot, TIERS)) == [(1, 5)]


def test_beyond_its_guarantee_nobody_takes_anything() -> None:
    snapshot = lent(
        draw("a 1122", jobs=[job(5, "1x3")]),
        job(1, "1x2"),
        job(2, "1x2"),
        owners={1: "speech", 2: "speech", 5: "vision"},
        limits=[limit("vision", guaranteed=2)],
    )
    assert plan_cycle(snapshot, TIERS).stops == ()


def test_what_is_lent_comes_back_from_higher_tiers_too() -> None:
    snapshot = lent(
        draw("a 1111", jobs=[job(5, "1x2")]),
        job(1, "1x4", tier=Tier.URGENT),
        owners={1: "speech", 5: "vision"},
        limits=[limit("vision", guaranteed=2), limit("speech", guaranteed=2)],
    )
    assert stops(plan_cycle(snapshot, TIERS)) == [(1, 5)]


@pytest.mark.parametrize(("ran_s", "stopped"), [(599, 0), (600, 1)])
def test_a_promised_run_time_is_kept(ran_s: float, stopped: int) -> None:
    snapshot = lent(
        draw("a 1111", jobs=[job(5, "1x2")]),
        job(1, "1x4"),
        owners={1: "speech", 5: "vision"},
        limits=[limit("vision", guaranteed=2)],
        ran_s=[ran_s],
    )
    assert len(plan_cycle(snapshot, PROMISED).stops) == stopped


def test_who_runs_within_the_guarantee_of_a_team_is_left_alone() -> None:
    """Project p borrows from its team alone, which holds no more than its own; r's team lent it."""
    snapshot = lent(
        draw("a 1122", jobs=[job(5, "1x2")]),
        job(1, "1x2"),
        job(2, "1x2"),
        owners={1: "p", 2: "r", 5: "q"},
        tree=("org", "org/v", "org/v/p", "org/s", "org/s/r", "org/t", "org/t/q"),
        limits=[limit("v", guaranteed=2), limit("t", guaranteed=2)],
        ran_s=[9000, 700],
        checkpoint_age_s=[10, 600],
    )
    assert stops(plan_cycle(snapshot, TIERS)) == [(2, 5)]


def test_a_project_within_its_own_guarantee_is_not_stopped_for_what_its_team_borrows() -> None:
    snapshot = lent(
        draw("a 1122", jobs=[job(5, "1x2")]),
        job(1, "1x2"),
        job(2, "1x2"),
        owners={1: "p", 2: "r", 5: "q"},
        tree=("org", "org/v", "org/v/p", "org/v/r", "org/t", "org/t/q"),
        limits=[limit("p", guaranteed=2), limit("t", guaranteed=2)],
        ran_s=[700, 9000],
        checkpoint_age_s=[10, 600],
    )
    assert stops(plan_cycle(snapshot, TIERS)) == [(2, 5)]


def test_those_of_the_same_owner_are_left_alone() -> None:
    """Both projects are within the guarantee of their team, which nobody else uses."""
    snapshot = lent(
        draw("a 11..", "b 22xx", jobs=[job(5, "1x4")]),
        job(1, "1x2"),
        job(2, "1x2"),
        owners={1: "p", 2: "speech", 5: "q"},
        tree=("org", "org/vision", "org/vision/p", "org/vision/q", "org/speech"),
        limits=[limit("vision", guaranteed=6)],
    )
    assert plan_cycle(snapshot, TIERS).stops == ()
    alone = replace(snapshot, waiting=replace(snapshot.waiting, gpus_per_node=ints([2])))
    assert plan_cycle(alone, TIERS).stops == ()


def test_an_equal_job_of_somebody_else_that_fits_nowhere_does_not_stand_in_the_way() -> None:
    snapshot = lent(
        draw("a 1122", jobs=[job(4, "1x2", waited=500), job(5, "1x2")]),
        job(1, "1x2"),
        job(2, "1x2"),
        owners={1: "speech", 2: "speech", 4: "speech", 5: "vision"},
        limits=[limit("vision", guaranteed=2)],
    )
    for order in (Order.FIFO, Order.FAIR):
        plan = plan_cycle(snapshot, replace(TIERS, order=order))
        assert [pair[1] for pair in stops(plan)] == [5]


_MARKS = "123456789abcdefg"


@st.composite
def lending(drawing: st.DrawFn) -> tuple[Snapshot, dict[str, int], dict[int, str]]:
    """One pool of sound nodes, jobs of one GPU of teams and their projects; guarantees of teams
    within the capacity. Owners are told by team."""
    teams, projects = ("t1", "t2", "t3"), ("t1p", "t2p", "t2q", "t3p")
    nodes = drawing(st.integers(1, 4))
    held = [drawing(st.booleans()) for _ in range(4 * nodes)]
    marks = [_MARKS[at] if is_held else "." for at, is_held in enumerate(held)]
    lines = [f"n{n} {''.join(marks[4 * n : 4 * n + 4])}" for n in range(nodes)]
    guarantees, left = dict[str, int](), 4 * nodes
    for team in teams:
        guarantees[team] = drawing(st.integers(0, left))
        left -= guarantees[team]
    running_jobs = [
        job(at + 1, tier=drawing(st.sampled_from(list(Tier))))
        for at, is_held in enumerate(held)
        if is_held
    ]
    waiting = [
        job(100 + at, tier=drawing(st.sampled_from(list(Tier))), waited=at)
        for at in range(drawing(st.integers(0, 14)))
    ]
    accounts = st.sampled_from((*teams, *projects))
    owners = {one.id: drawing(accounts) for one in [*running_jobs, *waiting]}
    ran_s = [float(drawing(st.sampled_from([10, 700, 9000]))) for _ in running_jobs]
    snapshot = lent(
        draw(*lines, jobs=waiting),
        *running_jobs,
        owners=owners,
        tree=("org", *(f"org/{t}" for t in teams), *(f"org/{p[:2]}/{p}" for p in projects)),
        limits=[limit(team, guaranteed=g) for team, g in guarantees.items() if g],
        ran_s=ran_s,
    )
    return snapshot, guarantees, {number: owner[:2] for number, owner in owners.items()}


@given(lending(), st.sampled_from([Order.FAIR, Order.FIFO]))
def test_a_guaranteed_request_on_sound_nodes_gets_its_room_at_once(
    drawn: tuple[Snapshot, dict[str, int], dict[int, str]], order: Order
) -> None:
    """Who still waits afterwards has all that is its own, unless what was idle has just been lent
    to somebody who came first: that can be taken back once it ran as long as was promised. Nobody
    is brought below what is its own for the sake of an owner."""
    snapshot, guarantees, owners = drawn
    plan = plan_cycle(snapshot, replace(TIERS, order=order))
    assert_owners_have_room(snapshot, plan, guarantees, owners)


def assert_owners_have_room(
    snapshot: Snapshot, plan: Plan, guarantees: Mapping[str, int], owners: Mapping[int, str]
) -> None:
    before = Counter(owners[number] for number in snapshot.held.job.tolist())
    stopped = Counter(owners[stop.job] for stop in plan.stops)
    started = Counter(owners[start.job] for start in plan.starts)
    waits = Counter(owners[wait.job] for wait in plan.iter_waits())
    by_owner = Counter(owners[s.job] for s in plan.stops if s.facts["why"] == "reclaim")
    held = {team: before[team] - stopped[team] + started[team] for team in guarantees}
    for team, own in guarantees.items():
        others = [other for other in guarantees if other != team and started[other]]
        has_just_lent = any(held[other] > guarantees[other] for other in others)
        if waits[team]:
            assert held[team] >= own or has_just_lent
        if by_owner[team]:
            assert before[team] - by_owner[team] + started[team] >= own
