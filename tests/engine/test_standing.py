"""Why one job went before another, from what was kept at both starts."""

from __future__ import annotations

from dataclasses import asdict, replace

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.explaining.standing import Standing, why_before
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


def test_who_passed_an_older_job_fitted_where_that_did_not() -> None:
    found = stood("a ....", jobs=[job(5, "1x4", waited=600), job(6)])
    small = stood("a 1...", jobs=[job(5, "1x4", waited=500), job(6)])[6]
    code, words = why_before(small, found[5])
    assert code == "fitted"
    assert "(1 GPU) was free, and what this job needs (4 GPUs) was not" in words
