"""Choosing anew who runs beside quotas, caps, budgets and maintenance: nobody stops in vain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.snapshot import NONE, Snapshot, Windows, floats, ints
from scheduler.states import Tier, WaitReason
from tests.builders import NOW_S, draw, job
from tests.engine.owners import limit, shared_by
from tests.engine.shaping import shaped
from tests.engine.test_preemption import LAS, SHORTEST, busy, running, starts, stops

TREE = ("org", "org/vision", "org/speech")
AGAINST = replace(SHORTEST, backfill_slack_s=0)


def owned(snapshot: Snapshot, owners: dict[int, str], limits, *tree: str) -> Snapshot:
    """Waiting, held and running jobs belong to these accounts."""
    shared = shared_by(snapshot, *(tree or TREE), owners=owners, limits=limits)
    assert shared.running is not None
    names = list(shared.account_names)
    jobs = shared.running.jobs
    account = [names.index(owners[n]) if n in owners else NONE for n in jobs.id.tolist()]
    own = replace(jobs, account=ints(account))
    return replace(shared, running=replace(shared.running, jobs=own))


def maintained(snapshot: Snapshot, node: int, begin: float) -> Snapshot:
    """One node (row) goes out of service so many seconds from now, for an hour."""
    window = Windows(
        ints([1]), ints([node]), floats([NOW_S + begin]), floats([NOW_S + begin + 3600])
    )
    return replace(snapshot, windows=window)


def two() -> Snapshot:
    """A long job of speech holds the only node; a short one of vision and one of speech wait."""
    jobs = [job(2, "1x4", limit_s=60), job(3, "1x4", limit_s=120)]
    return running(draw("a 1111", jobs=jobs), job(1, "1x4", limit_s=7200))


OWNERS = {1: "speech", 2: "vision", 3: "speech"}


def test_without_limits_the_shortest_goes_first():
    assert stops(plan_cycle(two(), AGAINST)) == [(1, 2)]


def test_nobody_stops_for_a_job_that_its_team_may_not_start():
    plan = plan_cycle(owned(two(), OWNERS, [limit("vision", maximum=2)]), AGAINST)
    # The next one is allowed: its team gives up as much as it takes.
    assert stops(plan) == [(1, 3)] and starts(plan) == {3: [101]}
    waits = {wait.job: wait.reason for wait in plan.iter_waits()}
    assert waits[2] == WaitReason.QUOTA_HARD


def test_nobody_of_a_higher_tier_stops_because_its_limit_was_lowered():
    """Speech holds four and may hold two now: what runs, runs on; it starts nothing more."""
    waiting = [job(2, "1x4", limit_s=60), job(3, "1x1", limit_s=60)]
    drawn = draw("a 1111", jobs=waiting)
    snapshot = running(drawn, job(1, "1x4", tier=Tier.URGENT, limit_s=7200))
    plan = plan_cycle(owned(snapshot, OWNERS, [limit("speech", maximum=2)]), AGAINST)
    assert plan.stops == () and plan.starts == ()
    rival = draw("a 1111", jobs=[job(2, "1x4", tier=Tier.URGENT, limit_s=60)])
    rival = running(rival, job(1, "1x4", tier=Tier.URGENT, limit_s=7200))
    plan = plan_cycle(owned(rival, OWNERS, [limit("speech", maximum=2)]), AGAINST)
    assert stops(plan) == [(1, 2)], "who is worth more still takes its place"


@pytest.mark.parametrize("tree", [
    ("org", "org/vision running=0", "org/speech budget=0"),
    ("org", "org/vision budget=100", "org/speech gpus=3"),
])  # fmt: skip
def test_caps_and_budgets_count_as_well(tree):
    plan = plan_cycle(owned(two(), OWNERS, [], *tree), AGAINST)
    assert plan.stops == () and plan.starts == ()


def test_nobody_stops_for_a_job_that_would_meet_maintenance():
    plan = plan_cycle(maintained(two(), 0, 100), AGAINST)
    assert stops(plan) == [(1, 2)]
    plan = plan_cycle(maintained(two(), 0, 50), AGAINST)
    assert plan.stops == () and plan.starts == ()


@given(busy(), st.sampled_from([SHORTEST, LAS]), st.data())
def test_whatever_the_limits_who_stops_has_a_beneficiary_that_starts(snapshot, policy, data):
    assert snapshot.running is not None
    ids = [*snapshot.waiting.id.tolist(), *snapshot.running.jobs.id.tolist()]
    owners = {number: data.draw(st.sampled_from(["vision", "speech"])) for number in ids}
    some = st.sampled_from([-1, 0, 2, 4, 8])
    limits = [
        limit(
            name,
            guaranteed=data.draw(st.sampled_from([0, 2, 4])),
            borrow=data.draw(some),
            maximum=data.draw(some),
        )
        for name in ("vision", "speech")
    ]
    cap, left = data.draw(st.sampled_from([-1, 1, 3])), data.draw(st.sampled_from([300, 10**9]))
    tree = ("org", f"org/vision running={cap}", f"org/speech budget={left}")
    drawn = owned(snapshot, owners, limits, *tree)
    if data.draw(st.booleans()):
        drawn = maintained(drawn, 0, data.draw(st.sampled_from([0, 45, 300])))
    plan = plan_cycle(drawn, policy)
    started = {start.job for start in plan.starts}
    assert {stop.beneficiary for stop in plan.stops} <= started
    # Who moves goes on at once.
    moved = {stop.job for stop in plan.stops} & {stop.beneficiary for stop in plan.stops}
    assert moved <= started


def test_who_runs_above_a_limit_that_was_lowered_is_not_stopped_for_that():
    snapshot = running(draw("a 1112", jobs=[job(3, limit_s=30)]), job(1, "1x3"), job(2))
    owners = dict.fromkeys((1, 2, 3), "vision")
    plan = plan_cycle(owned(snapshot, owners, [], "org", "org/vision running=1"), AGAINST)
    assert plan.stops == () and plan.starts == ()


FEW_NODES = [
    ([limit("vision", maximum=4)], ()),
    ([], ("org", "org/vision gpus=4", "org/speech")),
    ([], ("org", "org/vision budget=300", "org/speech")),
]


@pytest.mark.parametrize(("limits", "tree"), FEW_NODES)
def test_nobody_stops_for_more_nodes_than_an_elastic_job_may_have(limits, tree):
    """It would like two nodes, and its team may start one: one of the others stays."""
    drawn = draw("a 1111", "b 2222", jobs=[job(5, "2x4", limit_s=60)])
    snapshot = running(drawn, *(job(number, "1x4", limit_s=7200) for number in (1, 2)))
    snapshot = shaped(snapshot, jobs={"nodes_min": {5: 1}})
    owners = {1: "speech", 2: "speech", 5: "vision"}
    plan = plan_cycle(owned(snapshot, owners, limits, *tree), AGAINST)
    assert len(stops(plan)) == 1 and len(starts(plan)[5]) == 1


def test_an_elastic_job_that_its_team_may_start_only_instead_of_another_starts_so():
    drawn = draw("a 1111", "b ....", jobs=[job(5, "2x4", limit_s=60)])
    snapshot = running(drawn, job(1, "1x4", limit_s=7200))
    snapshot = shaped(snapshot, jobs={"nodes_min": {5: 1}})
    owners = {1: "vision", 5: "vision"}
    plan = plan_cycle(owned(snapshot, owners, [limit("vision", maximum=4)]), AGAINST)
    assert stops(plan) == [(1, 5)] and len(starts(plan)[5]) == 1
