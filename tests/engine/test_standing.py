"""Why one job went before another, from what was kept at both starts."""

from __future__ import annotations

from dataclasses import asdict, replace

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.explaining.standing import Standing, standing_now, why_before
from scheduler.engine.policy import Policy
from scheduler.states import Tier
from tests.builders import draw, job


def stood(*lines: str, jobs: list) -> dict[int, Standing]:
    return dict(plan_cycle(draw(*lines, jobs=jobs)).standings)


def test_a_start_has_its_place_and_whom_it_passed() -> None:
    jobs = [job(5, "1x4", waited=9), job(6, "1x9", waited=8), job(7, "1x1"), job(8, "1x1", tier=30)]
    found = stood("a 1...", jobs=jobs)
    assert {n: (s.place, s.passed) for n, s in found.items()} == {8: (1, 0), 7: (3, 1)}
    assert Standing.read(asdict(found[7])) == found[7]
    assert Standing.read({"job": 7}) is None


def test_the_first_factor_that_differs_says_why() -> None:
    jobs = [job(5, waited=600), job(6, waited=0), job(7, tier=Tier.URGENT)]
    found = stood("a ....", jobs=jobs)
    assert why_before(found[7], found[5]) == ("tier", "It is of a higher tier.")
    assert why_before(found[5], found[6]) == ("age", "It was submitted 10 min earlier.")
    assert why_before(found[5], replace(found[5], job=9))[0] == "number"
    used = [replace(found[5], order="fair", share=share) for share in ((0.5, 0.9), (0.5, 0.2))]
    assert why_before(used[1], replace(used[0], queued_at_s=0))[0] == "share"
    assert why_before(used[1], found[6])[0] == "unknown"


def test_shares_are_compared_from_where_the_accounts_differ() -> None:
    """What both have in common moved between the two starts, and says nothing."""
    one = stood("a ....", jobs=[job(5)])[5]
    early = replace(one, order="fair", share=(0.1, 0.5, 0.2))
    late = replace(early, job=6, share=(0.4, 0.3, 0.3), queued_at_s=early.queued_at_s + 60)
    code, words = why_before(early, late, common_levels=2, second_waits=True)
    assert code == "share"
    assert "its owner had 20 % of the cluster when it started" in words
    assert "this job's owner has now 30 %" in words
    below = replace(early, share=(0.1, 0.5, 0.4, 0.2)), replace(late, share=(0.4, 0.3, 0.5, 0.3))
    assert "its team had 40 %" in why_before(*below, common_levels=2)[1]
    assert "its owner had 20 %" in why_before(*below, common_levels=3)[1]
    assert why_before(early, late, common_levels=3)[0] == "age"
    assert why_before(early, late, common_levels=1)[0] == "fitted"


def test_a_waiting_job_stands_where_it_would_start_from() -> None:
    snapshot = draw("a 1111", jobs=[job(5, waited=60), job(6, waited=30)])
    now = standing_now(snapshot, Policy(), 6)
    assert now is not None and (now.place, now.passed, now.gpus) == (2, 1, 1)
    assert standing_now(snapshot, Policy(), 1) is None


def test_who_passed_an_older_job_fitted_where_that_did_not() -> None:
    found = stood("a ....", jobs=[job(5, "1x4", waited=600), job(6)])
    small = stood("a 1...", jobs=[job(5, "1x4", waited=500), job(6)])[6]
    code, words = why_before(small, found[5])
    assert code == "fitted"
    assert "(1 GPU) was free, and what this job needs (4 GPUs) was not" in words
    _, words = why_before(replace(small, gpus=0), found[5])
    assert "what it needs (CPUs and memory) was free" in words
