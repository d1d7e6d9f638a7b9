"""When jobs start that wait until their account may hold more."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.forecasting import FORECAST_REASONS, LIMIT_REASONS, starts
from scheduler.engine.forecasting.allowances import Allowance
from scheduler.engine.forecasting.starts import LAID_OUT
from scheduler.engine.snapshot import NONE, Snapshot, floats
from scheduler.states import WaitReason
from tests.builders import draw, job
from tests.engine.going_on import played
from tests.engine.owners import DrawnLimit, limit, shared_by
from tests.engine.shaping import licensed
from tests.engine.test_forecast import told

TEAMS = ("org", "org/a", "org/b")


def test_a_job_at_its_teams_maximum_is_told_when_the_teams_own_jobs_end() -> None:
    jobs = [job(5, "1x2", waited=9, limit_s=600), job(6, "1x2", waited=8), job(7, "1x2", waited=7)]
    cluster = draw("x 1122....", jobs=jobs, ends={1: 300, 2: 1200})
    owners = {1: "a", 2: "a", 5: "a", 6: "a", 7: "b"}
    snapshot = shared_by(cluster, *TEAMS, owners=owners, limits=[limit("a", maximum=4)])
    assert {number: found[1] for number, found in told(snapshot).items()} == {5: 5, 6: 15}
    half = replace(snapshot, run_share=floats([0.5]))
    assert told(half) == {5: [3, 5], 6: [8, 15]}, "2.5 and 7.5 minutes are rounded up"


def test_room_is_waited_for_as_well() -> None:
    jobs = [job(5, "1x4")]
    cluster = draw("x 11113333", jobs=jobs, ends={1: 300, 3: 1800})
    owners, limits = {1: "b", 3: "a", 5: "a"}, [limit("a", maximum=4)]
    snapshot = shared_by(cluster, *TEAMS, owners=owners, limits=limits)
    assert told(snapshot)[5] == [30, 30]
    other = shared_by(cluster, *TEAMS, owners={**owners, 1: "a", 3: "b"}, limits=limits)
    assert told(other)[5] == [5, 5]


def test_what_may_be_borrowed_comes_back_like_what_may_be_held() -> None:
    cluster = draw("x 1122....", jobs=[job(5, "1x2")], ends={1: 300, 2: 1200})
    limits = [limit("a", guaranteed=1, borrow=3)]
    snapshot = shared_by(cluster, *TEAMS, owners=dict.fromkeys((1, 2, 5), "a"), limits=limits)
    assert told(snapshot) == {5: [5, 5]}


@pytest.mark.parametrize(("most", "minutes"), [("running=2", [5, 5]), ("running=1", [20, 20])])
def test_a_cap_on_running_jobs_lets_one_in_as_another_ends(most: str, minutes: list[int]) -> None:
    cluster = draw("x 12......", jobs=[job(5)], ends={1: 300, 2: 1200})
    owners = dict.fromkeys((1, 2, 5), "a")
    assert told(shared_by(cluster, "org", f"org/a {most}", owners=owners)) == {5: minutes}


def test_what_no_end_makes_possible_is_not_told() -> None:
    cluster = draw("x 1.......", jobs=[job(5, "1x4"), job(6)], ends={1: np.inf})
    owners = dict.fromkeys((1, 5, 6), "a")
    wide = shared_by(cluster, "org", "org/a gpus=2", owners=owners)
    full = shared_by(cluster, *TEAMS, owners=owners, limits=[limit("a", maximum=1)])
    raised = "It asks for more than the limit and starts only once that is raised."
    ends = "It depends on which of the team's jobs end first."
    for snapshot, told_why in ((wide, {5: raised}), (full, {5: raised, 6: ends})):
        facts = {wait.job: wait.facts for wait in plan_cycle(snapshot).waits}
        assert {number: found["start_why"] for number, found in facts.items()} == told_why
        assert all(found["start_p90_at"] is None for found in facts.values())


def test_what_is_more_than_others_ever_lend_is_not_told() -> None:
    """B keeps two of its four: of eight GPUs six are left for A, whoever ends."""
    limits = [limit("a", guaranteed=2, maximum=8), limit("b", guaranteed=4, lend=2)]
    for line in ("x 1122....", "x ........", "x 3......."):
        cluster = draw(line, jobs=[job(5, "1x8")], ends={1: 300, 2: 1200, 3: 300})
        owners = {1: "b", 2: "b", 3: "a", 5: "a"}
        snapshot = shared_by(cluster, *TEAMS, owners=owners, limits=limits)
        (wait,) = plan_cycle(snapshot).waits
        assert wait.facts["start_p90_at"] is None
        assert "may be shared or borrowed at all" in str(wait.facts["start_why"])
    cluster = draw("x 11112222", jobs=[job(5, "1x6")], ends={1: 300, 2: 1200})
    snapshot = shared_by(cluster, *TEAMS, owners=owners, limits=limits)
    assert told(snapshot) == {5: [20, 20]}


def test_what_waits_for_its_queue_as_well_is_not_told() -> None:
    jobs = [job(5, queue="night")]
    cluster = draw("x 1...", jobs=jobs, ends={1: 300}, paused=["night"])
    snapshot = shared_by(cluster, *TEAMS, owners={1: "a", 5: "a"}, limits=[limit("a", maximum=1)])
    assert plan_cycle(snapshot).waits[0].facts["start_p90_at"] is None


def test_a_limit_of_all_pools_counts_what_starts_in_another() -> None:
    """Both wait for the one GPU that the team may have; the first has an hour."""
    jobs = [job(5, pool="p", waited=9), job(6, pool="q", waited=8)]
    cluster = draw("x 1. pool=p", "y .. pool=q", jobs=jobs, ends={1: 300})
    owners = dict.fromkeys((1, 5, 6), "a")
    anywhere = shared_by(cluster, *TEAMS, owners=owners, limits=[limit("a", maximum=1)])
    assert told(anywhere) == {5: [5, 5], 6: [65, 65]}
    own = [limit("a", maximum=1, pool=pool) for pool in ("p", "q")]
    assert told(shared_by(cluster, *TEAMS, owners=owners, limits=own)) == {5: [5, 5]}


def test_licences_come_back_like_what_accounts_may_hold() -> None:
    """Three tokens: two are out for five minutes; who wants three waits for who wants two."""
    jobs = [job(1, waited=9, limit_s=600), job(2, waited=8), job(3, waited=7, pool="other")]
    asked = {1: {"sim": 2}, 2: {"sim": 3}, 3: {"sim": 4}}
    cluster = draw("x ....", "y .... pool=other", jobs=jobs)
    snapshot = licensed(cluster, {"sim": 3}, asked, used=[(9, "sim", 2, 300)])
    found = told(snapshot)
    assert (found[1], found[2]) == ([5, 5], [15, 15]) and np.isnan(found[3]).all()
    other = licensed(cluster, {"sim": 4}, asked, used=[(9, "sim", 3, 300)])
    assert told(other) == {1: [5, 5], 2: [15, 15], 3: [75, 75]}


def test_an_allowance_lends_what_is_there_and_pays_debts_first() -> None:
    supply = Allowance(((0.0, 2), (10.0, 2), (20.0, 4)))
    assert [supply.ready_s(need) for need in (2, 3, 8, 9)] == [0, 10, 20, np.inf]
    supply.take(2, 10.0, 30.0)
    assert supply.ready_s(2) == 0, "what came free last was taken"
    supply.take(8, 10.0, 40.0)
    assert supply.ready_s(1) == 40
    owing = Allowance(((0.0, -3), (10.0, 2), (20.0, 2)))
    assert [owing.ready_s(need) for need in (1, 2)] == [20, np.inf]


def _contended(seed: int) -> Snapshot:
    """Three nodes, five accounts at some of their limits, and a line."""
    dice = random.Random(seed)
    rows, last = [["."] * 8 for _ in range(3)], 0
    for row in rows:
        for place in range(8):
            if dice.random() < 0.8:
                last = min(9, last + (last == 0 or dice.random() < 0.4))
                row[place] = str(last)
    jobs = [
        job(
            number,
            dice.choice(("1x1", "1x2", "1x4", "2x4", "1x8")),
            waited=200 - number,
            limit_s=dice.choice((300, 600, 1800, 3600, 7200)),
        )
        for number in range(10, 10 + dice.randint(3, 14))
    ]
    numbers = [*range(1, last + 1), *(one.id for one in jobs)]
    owners = {number: dice.choice(("a", "p", "q", "b", "c")) for number in numbers}
    ends = {number: dice.choice((300, 600, 1200, 3600, 7200)) for number in range(1, last + 1)}
    limits = [_limit(dice, name) for name in ("a", "p", "b", "c") if dice.random() < 0.7]
    capped = [f"{path} {dice.choice(('', 'running=2', 'running=1', ''))}" for path in _TREE]
    cluster = draw(*(f"n{at} {''.join(row)}" for at, row in enumerate(rows)), jobs=jobs, ends=ends)
    return shared_by(cluster, "org", *capped, owners=owners, limits=limits)


_TREE = ("org/a", "org/a/p", "org/a/q", "org/b", "org/c")


def _limit(dice: random.Random, name: str) -> DrawnLimit:
    return DrawnLimit(
        name,
        guaranteed=dice.choice((0, 2, 4, 8)),
        borrow=dice.choice((NONE, NONE, 0, 2, 6)),
        lend=dice.choice((NONE, NONE, NONE, 0, 2)),
        maximum=dice.choice((NONE, 4, 8, 12)),
        pool=dice.choice(("", "default")),
    )


def test_most_start_within_what_they_were_told_and_who_never_does_is_told_nothing() -> None:
    """What is played out is the engine itself, cycle by cycle, with ends at the limits."""
    counts: Counter[str] = Counter()
    for seed in range(60):
        snapshot = _contended(seed)
        began, waits = played(snapshot), plan_cycle(snapshot).waits
        for wait, p90_s in zip(waits, waits.forecast.p90_s.tolist(), strict=True):
            if wait.reason not in LIMIT_REASONS:
                continue
            if wait.job not in began:
                counts["never, told"] += not np.isnan(p90_s)
                counts["never"] += 1
                continue
            counts["starts"] += 1
            counts["told"] += not np.isnan(p90_s)
            counts["in time"] += began[wait.job] <= p90_s
    assert counts["starts"] > 200 and counts["never"] > 40
    assert counts["told"] >= 0.98 * counts["starts"]
    assert counts["in time"] >= 0.9 * counts["told"]
    assert counts["never, told"] <= 0.05 * counts["never"]


def test_who_is_behind_those_laid_out_is_told_by_what_is_ahead_under_its_limit() -> None:
    """An hour each, b's first: of a two at a time, of b one."""
    count = LAID_OUT + 60
    jobs = [job(n, waited=count - n, limit_s=3600) for n in range(1, count + 1)]
    owners = {n: "b" if n <= LAID_OUT else "a" for n in range(1, count + 1)}
    limits = [limit("a", maximum=2), limit("b", maximum=1)]
    cluster = draw("x 9.......", jobs=jobs, ends={9999: 3600})
    found = told(shared_by(cluster, *TEAMS, owners={**owners, 9999: "b"}, limits=limits))
    assert found[LAID_OUT] == [60 * LAID_OUT] * 2, "what b holds ends in an hour"
    of_a = [found[n][1] / 60 for n in range(LAID_OUT + 3, count + 1)]
    assert np.abs(np.array(of_a) - np.arange(2, 60) // 2).max() <= 1


def test_behind_those_laid_out_most_are_told_and_of_the_right_size() -> None:
    counts: Counter[str] = Counter()
    errors_s, waits_s = list[float](), list[float]()
    with patch.object(starts, "LAID_OUT", 2):
        for seed in range(60):
            snapshot = _contended(seed)
            began, waits = played(snapshot), plan_cycle(snapshot).waits
            for wait, p90_s in zip(waits, waits.forecast.p90_s.tolist(), strict=True):
                if wait.reason in LIMIT_REASONS and wait.job in began:
                    counts["starts"] += 1
                    counts["told"] += not np.isnan(p90_s)
                    if not np.isnan(p90_s):
                        errors_s.append(abs(began[wait.job] - p90_s))
                        waits_s.append(began[wait.job] - snapshot.now_s)
                elif wait.reason in LIMIT_REASONS:
                    counts["never, told"] += not np.isnan(p90_s)
                    counts["never"] += 1
    assert counts["starts"] > 200 and counts["never"] > 40
    assert counts["told"] >= 0.98 * counts["starts"]
    assert counts["never, told"] <= 0.05 * counts["never"]
    assert np.median(errors_s) == 0 and np.mean(errors_s) <= 0.35 * np.mean(waits_s)


def test_reasons_of_limits_are_not_those_of_room() -> None:
    assert not LIMIT_REASONS & FORECAST_REASONS
    assert WaitReason.BUDGET_EXHAUSTED not in LIMIT_REASONS
