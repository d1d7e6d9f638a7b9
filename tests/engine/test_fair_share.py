"""Whose turn it is among accounts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.ordering import order_waiting
from scheduler.engine.policy import Order, Policy
from scheduler.engine.sharing.fairshare import Line, Units, needs_of
from scheduler.engine.sharing.turns import Turns
from scheduler.engine.snapshot import Snapshot, SnapshotInvalid, floats, ints
from scheduler.states import Tier
from tests.builders import draw, job, picture
from tests.engine.owners import after, shared_by
from tests.engine.test_properties import snapshots, verdict_list

FAIR = Policy(order=Order.FAIR)
DAY_S = 86_400.0
TEAMS = ("org", "org/vision", "org/speech")


def shown(snapshot: Snapshot, policy: Policy = FAIR) -> list[str]:
    return picture(snapshot, plan_cycle(snapshot, policy))


def line_of(snapshot: Snapshot, policy: Policy = FAIR) -> list[int]:
    """Jobs in the order in which they wait."""
    return [wait.job for wait in plan_cycle(snapshot, policy).iter_waits()]


def test_who_holds_less_goes_first_even_if_younger() -> None:
    jobs = [job(5, waited=900), job(6)]
    cluster = draw("a 1...", "b xx", jobs=jobs)
    owners = {1: "vision", 5: "vision", 6: "speech"}
    snapshot = shared_by(replace(cluster), *TEAMS, owners=owners)
    only_one = draw("a 111.", jobs=jobs)
    assert shown(shared_by(only_one, *TEAMS, owners=owners)) == ["1116"]
    assert shown(shared_by(only_one, *TEAMS, owners=owners), Policy()) == ["1115"]
    assert shown(snapshot) == ["165.", "xx"]


def test_shares_change_while_jobs_are_admitted() -> None:
    jobs = [*(job(n, waited=100) for n in (5, 6, 7, 8)), job(10), job(11)]
    owners = {**dict.fromkeys((5, 6, 7, 8), "vision"), 10: "speech", 11: "speech"}
    snapshot = shared_by(draw("a ....", jobs=jobs), *TEAMS, owners=owners)
    assert shown(snapshot) == ["5a6b"]


def test_weight_counts() -> None:
    jobs = [*(job(n, waited=100) for n in (5, 6, 7, 8)), job(10), job(11), job(12)]
    owners = {**dict.fromkeys((5, 6, 7, 8), "vision"), **dict.fromkeys((10, 11, 12), "speech")}
    heavy = ("org", "org/vision weight=3", "org/speech")
    (row,) = shown(shared_by(draw("a ....", jobs=jobs), *heavy, owners=owners))
    assert sorted(row) == sorted("5a67")


def test_past_use_counts_as_the_gpus_that_would_have_left_it() -> None:
    """Half-life x GPUs / ln 2 is where endless use of so many GPUs settles."""
    endless_two = 2 * FAIR.half_life_s / np.log(2)
    jobs = [job(n) for n in (5, 6, 7, 10, 11, 12)]
    owners = {**dict.fromkeys((5, 6, 7), "vision"), **dict.fromkeys((10, 11, 12), "speech")}
    past = ("org", f"org/vision used={endless_two}", "org/speech")
    assert shown(shared_by(draw("a ....", jobs=jobs), *past, owners=owners)) == ["ab5c"]
    shorter = Policy(order=Order.FAIR, half_life_s=FAIR.half_life_s * 4)
    # The same seconds are a smaller habit when they are remembered for longer.
    assert shown(shared_by(draw("a ....", jobs=jobs), *past, owners=owners), shorter) == ["a5b6"]


def test_the_dominant_share_counts_cpus_and_memory_too() -> None:
    jobs = [job(5, cpus=30), job(6, cpus=30), job(10, "1x2"), job(11), job(12)]
    owners = {5: "vision", 6: "vision", **dict.fromkeys((10, 11, 12), "speech")}
    snapshot = shared_by(draw("a .... .... cpus=64", jobs=jobs), *TEAMS, owners=owners)
    # Job 5 takes 30 of 64 CPUs, more than the parts of the GPUs that speech takes before job 6.
    starts = [start.job for start in plan_cycle(snapshot, FAIR).starts]
    assert starts == [5, 10, 11, 12, 6]


def test_levels_are_compared_from_the_top() -> None:
    """Ann's team has more than Cy's, so Cy goes first though Ann has nothing herself."""
    people = (
        "org",
        "org/vision",
        "org/vision/ann",
        "org/vision/bob",
        "org/speech",
        "org/speech/cy",
    )
    owners = {1: "bob", 2: "cy", 5: "ann", 6: "cy", 7: "bob"}
    jobs = [job(5, waited=50), job(6), job(7, waited=70)]
    assert shown(shared_by(draw("a 112.", jobs=jobs), *people, owners=owners)) == ["1126"]
    # Inside vision it is Ann's turn before Bob's.
    without = [one for one in jobs if one.id != 6]
    assert shown(shared_by(draw("a 112.", jobs=without), *people, owners=owners)) == ["1125"]


def test_a_person_does_not_gain_by_spreading_work_over_projects() -> None:
    tree = ("org", "org/t", "org/t/p1", "org/t/p2", "org/t/ann", "org/t/bob")
    owners = {1: "p1", 2: "p2", 5: "p2", 6: "p1"}
    sharers = {1: "ann", 2: "bob", 3: "ann", 5: "ann", 6: "bob"}
    owners[3] = "p1"
    snapshot = draw("a 1132.", jobs=[job(5, waited=99), job(6)])
    assert shown(shared_by(snapshot, *tree, owners=owners, sharers=sharers)) == ["11326"]


def test_tier_comes_before_share_and_who_waited_too_long_before_both() -> None:
    jobs = [job(5, tier=Tier.URGENT), job(6)]
    owners = {1: "vision", 5: "vision", 6: "speech"}
    snapshot = shared_by(draw("a 111.", jobs=jobs), *TEAMS, owners=owners)
    assert shown(snapshot) == ["1115"]
    jobs = [job(5, waited=7200), job(6)]
    overdue = shared_by(draw("a 111.", jobs=jobs), *TEAMS, owners=owners)
    assert shown(overdue) == ["1116"]
    assert shown(replace(overdue, wait_limit_s=floats([3600]))) == ["1115"]


def test_those_who_wait_stand_in_the_order_of_their_turns() -> None:
    jobs = [job(n, waited=100 - n) for n in (5, 6, 7, 10, 11)]
    owners = {**dict.fromkeys((5, 6, 7), "vision"), 10: "speech", 11: "speech"}
    snapshot = shared_by(draw("a 2", jobs=jobs), *TEAMS, owners=owners)
    assert line_of(snapshot) == [5, 10, 6, 11, 7]
    assert line_of(snapshot, Policy()) == [5, 6, 7, 10, 11]


_TREE = ("org", "org/t1", "org/t1/a", "org/t1/b", "org/t2 weight=2", "org/t2/c", "org/t3")
_LEAVES = ("a", "b", "c", "t3", "")


@st.composite
def owned(drawing: st.DrawFn) -> Snapshot:
    snapshot = drawing(snapshots())
    numbers = [*snapshot.waiting.id.tolist(), *snapshot.held.job.tolist()]
    owners = {number: drawing(st.sampled_from(_LEAVES)) for number in sorted(set(numbers))}
    used = [f"{line} used={drawing(st.sampled_from([0, 0, 5e5, 3e6]))}" for line in _TREE]
    return shared_by(snapshot, *used, owners=owners)


@given(snapshots(), st.integers(0, 10**6))
def test_with_one_account_fair_equals_fifo(snapshot: Snapshot, used: int) -> None:
    numbers = [*snapshot.waiting.id.tolist(), *snapshot.held.job.tolist()]
    alone = shared_by(snapshot, "org", f"org/t used={used}", owners=dict.fromkeys(numbers, "t"))
    assert verdict_list(plan_cycle(alone, FAIR)) == verdict_list(plan_cycle(snapshot, Policy()))


def by_looking_at_all(line: Line, needs: list[Units], left: set[int]) -> list[int]:
    """The simple way: whose scores from the top are least is next, is charged, and so on."""
    assert line.shares is not None
    takers = line.turn_takers(ints(np.arange(len(line.order)))).tolist()
    turns: list[int] = []
    while left:
        scores = line.shares.scores
        place = min(left, key=lambda p: (int(line.group[p]), scores(takers[p]), p))
        left = left - {place}
        turns.append(place)
        line.charge(int(line.sharers[line.order[place]]), needs[place])
    return turns


@given(owned(), st.sampled_from([None, 300.0]))
def test_the_line_equals_admitting_one_after_the_other(
    snapshot: Snapshot, wait_limit_s: float | None
) -> None:
    """What `line_up` sorts, and what `Turns` keeps up, is what looking at all of them gives."""
    if wait_limit_s is not None:
        limits_s = floats([wait_limit_s] * len(snapshot.pools))
        snapshot = replace(snapshot, wait_limit_s=limits_s)
    order = order_waiting(snapshot, FAIR)
    line, other, greedy = (Line(snapshot, FAIR, order) for _ in range(3))
    places = ints(np.arange(len(order)))
    needs: list[Units] = [(gpu, cpu, mib) for gpu, cpu, mib in needs_of(snapshot, order).tolist()]
    simple = by_looking_at_all(greedy, needs, set(range(len(order))))
    assert line.line_up(places).tolist() == simple
    found: list[int] = []
    takers = other.turn_takers(places)
    for group in np.unique(other.group).tolist():
        turns, rest = Turns(other.shares), dict[int, list[int]]()
        for place in np.flatnonzero(other.group == group).tolist():
            rest.setdefault(int(takers[place]), []).append(place)
        for taker, waiting in rest.items():
            turns.add(taker, waiting[0], taker)
        turns.open()
        while (whose := turns.first()) is not None:
            place = rest[whose].pop(0)
            found.append(place)
            other.charge(int(other.sharers[order[place]]), needs[place])
            turns.move(whose, rest[whose][0] if rest[whose] else None)
    assert found == simple


@given(owned(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(snapshot: Snapshot, random) -> None:
    rows = list(range(len(snapshot.waiting)))
    random.shuffle(rows)
    shuffled = snapshot.only(ints(rows))
    assert verdict_list(plan_cycle(shuffled, FAIR)) == verdict_list(plan_cycle(snapshot, FAIR))


@given(owned())
def test_the_older_of_equal_jobs_is_never_behind(snapshot: Snapshot) -> None:
    plan, waiting = plan_cycle(snapshot, FAIR), snapshot.waiting
    names = (
        "pool",
        "queue",
        "tier",
        "nodes",
        "gpus_per_node",
        "part_gpus",
        "cpus",
        "memory_mib",
        "model",
        "avoid_node",
        "time_limit_s",
        "account",
    )
    inputs = [
        tuple(row) for row in zip(*(getattr(waiting, n).tolist() for n in names), strict=True)
    ]
    turn = dict.fromkeys((start.job for start in plan.starts), -1)
    turn |= {wait.job: at for at, wait in enumerate(plan.iter_waits())}
    for one, mine in enumerate(inputs):
        for other, theirs in enumerate(inputs):
            if mine == theirs and waiting.queued_at_s[one] < waiting.queued_at_s[other]:
                assert turn[int(waiting.id[one])] <= turn[int(waiting.id[other])]


@given(owned())
def test_a_plan_leaves_nothing_to_do_for_the_next_cycle(snapshot: Snapshot) -> None:
    plan = plan_cycle(snapshot, FAIR)
    if not plan.reservations:
        assert plan_cycle(after(snapshot, plan), FAIR).starts == ()


def test_a_half_life_of_nothing_is_refused() -> None:
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="half_life_s must be a number of seconds above zero"):
            Policy(order=Order.FAIR, half_life_s=wrong)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"parent": [0, -1, 0]}, r"accounts.parent comes after its child.*row 0"),
        ({"parent": [-1, 2, 1]}, r"accounts.parent comes after its child.*circle.*row 1"),
        ({"weight": [1, 0, 1]}, r"accounts.weight .*row 1"),
        ({"weight": [1, 1, np.nan]}, r"accounts.weight .*row 2"),
        ({"used_gpu_s": [0, -1, 0]}, r"accounts.used_gpu_s .*row 1"),
        ({"used_gpu_s": [0, np.inf, 0]}, r"accounts.used_gpu_s .*row 1"),
        ({"budget_gpu_s": [0, np.nan, 0]}, r"accounts.budget_gpu_s .*row 1"),
        ({"max_running": [-2, 0, 0]}, r"accounts.max_running .*row 0"),
        ({"weight": [1, 1]}, "columns of Accounts differ in length"),
    ],
)
def test_accounts_that_make_no_sense_are_refused_by_name(change, name: str) -> None:
    snapshot = shared_by(draw("a ."), *TEAMS)
    columns = {key: floats(v) if key[0] in "wub" else ints(v) for key, v in change.items()}
    with pytest.raises(SnapshotInvalid, match=name):
        plan_cycle(replace(snapshot, accounts=replace(snapshot.accounts, **columns)))


def test_a_job_of_nobody_known_is_named() -> None:
    snapshot = shared_by(draw("a .", jobs=[job(5)]), *TEAMS)
    waiting = replace(snapshot.waiting, account=ints([3]))
    with pytest.raises(SnapshotInvalid, match=r"waiting\.account") as caught:
        plan_cycle(replace(snapshot, waiting=waiting))
    assert caught.value.jobs == (5,)
