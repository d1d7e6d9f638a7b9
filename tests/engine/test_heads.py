"""Several protected heads: each a drawing of who is planned where and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.plan import Plan, Reservation, SlotKind
from scheduler.engine.policy import Policy
from scheduler.states import Tier, WaitReason
from tests.builders import NOW_S, draw, job, picture
from tests.engine.shaping import in_racks, shaped
from tests.engine.stopping import live

TWO = Policy(heads=2, backfill_slack_s=0)
WIDE = [job(5, "1x4", waited=900), job(6, "1x4", waited=800)]


def planned(plan: Plan) -> list[tuple[int, tuple[int, ...], float]]:
    return [(r.job, r.nodes, r.start_s - NOW_S) for r in plan.reservations]


def test_the_second_head_has_the_next_best_node() -> None:
    snapshot = draw("a 1...", "b 2...", jobs=WIDE, ends={1: 500, 2: 900})
    assert planned(plan_cycle(snapshot, TWO)) == [(5, (101,), 500), (6, (102,), 900)]
    assert planned(plan_cycle(snapshot)) == [(5, (101,), 500)]


def test_the_second_head_follows_the_first_where_that_is_sooner() -> None:
    jobs = [job(5, "1x4", waited=900, limit_s=300), job(6, "1x4", waited=800)]
    snapshot = draw("a 1...", "b 2...", jobs=jobs, ends={1: 500, 2: 900})
    assert planned(plan_cycle(snapshot, TWO)) == [(5, (101,), 500), (6, (101,), 800)]


def test_nobody_passes_who_would_delay_the_second_head() -> None:
    jobs = [*WIDE, job(7, "1x2", limit_s=901), job(8, "1x1", limit_s=900)]
    snapshot = draw("a 1111", "b 2...", jobs=jobs, ends={1: 500, 2: 900})
    plan = plan_cycle(snapshot, TWO)
    assert picture(snapshot, plan) == ["1111", "28.."]
    reasons = {wait.job: (wait.reason, wait.facts.get("head")) for wait in plan.iter_waits()}
    assert reasons[7] == (WaitReason.BACKFILL_WOULD_DELAY_HEAD, 6)
    # With one head the same job passes.
    assert picture(snapshot, plan_cycle(snapshot, Policy(backfill_slack_s=0))) == ["1111", "2778"]


def test_a_small_head_fits_before_a_wide_one_if_it_is_gone_in_time() -> None:
    jobs = [job(5, "1x4", waited=900), job(6, "1x2", waited=800, limit_s=300)]
    snapshot = draw("a 1112", jobs=jobs, ends={1: 100, 2: 500})
    assert planned(plan_cycle(snapshot, TWO)) == [(5, (101,), 500), (6, (101,), 100)]


def test_a_promise_is_kept_though_the_first_head_finds_a_better_place() -> None:
    """Node b comes free early. Head 5 would take it, and 6, which fits there only, would wait."""
    jobs = [job(5, "1x2", waited=900), job(6, "1x4", waited=800)]
    told = (Reservation(5, (101,), NOW_S + 300), Reservation(6, (102,), NOW_S + 400))
    snapshot = draw("a 11", "b 2222", jobs=jobs, ends={1: 300, 2: 200})
    assert planned(plan_cycle(snapshot, TWO)) == [(5, (102,), 200), (6, (102,), 3800)]
    remembered = with_promises(snapshot, told)
    assert planned(plan_cycle(remembered, TWO)) == [(5, (101,), 300), (6, (102,), 200)]


@pytest.mark.parametrize("policy", [TWO, replace(TWO, preempts=True)])
def test_a_promise_outlives_an_equal_job_of_a_higher_tier_that_fits_nowhere(
    policy: Policy,
) -> None:
    """Job 4 has just come, so nothing is kept for it; that its class is full concerns no head."""
    told = (Reservation(5, (101,), NOW_S + 500), Reservation(6, (102,), NOW_S + 900))
    jobs = [job(4, "1x4", tier=Tier.URGENT), *WIDE]
    snapshot = with_promises(draw("a 1...", "b 2...", jobs=jobs, ends={1: 500, 2: 900}), told)
    assert planned(plan_cycle(snapshot, policy)) == [(5, (101,), 500), (6, (102,), 900)]
    running = live(snapshot, job(1, tier=Tier.URGENT), job(2, tier=Tier.URGENT))
    assert planned(plan_cycle(running, policy)) == [(5, (101,), 500), (6, (102,), 900)]


def test_a_promise_whose_node_failed_is_planned_anew() -> None:
    told = (Reservation(5, (101,), NOW_S + 100), Reservation(6, (102,), NOW_S + 300))
    lines = ("a 1111 silent", "b 2222", "c 3333")
    snapshot = draw(*lines, jobs=WIDE, ends={1: 100, 2: 300, 3: 600})
    # 6 keeps what it was told, though 5 comes first and has to look elsewhere.
    plan = plan_cycle(with_promises(snapshot, told), TWO)
    assert planned(plan) == [(5, (103,), 600), (6, (102,), 300)]


def test_the_timeline_has_starts_and_heads() -> None:
    jobs = [job(5, "1x4", waited=900), job(7, limit_s=60)]
    snapshot = draw("a 1...", jobs=jobs, ends={1: 500})
    rows = [
        (s.kind, s.owner, s.nodes, s.from_s - NOW_S, s.until_s - NOW_S)
        for s in plan_cycle(snapshot, TWO).timeline
    ]
    assert rows == [(SlotKind.START, 7, (101,), 0, 60), (SlotKind.HEAD, 5, (101,), 500, 4100)]


def test_a_gang_is_planned_in_the_rack_that_holds_its_smaller_share_too() -> None:
    """The first rack has two nodes for the whole shares at once, and never a third."""
    lines = ("a ....", "b ....", "c 1111", "d 1111", "e 2222")
    wide = [job(5, "2x4+1", waited=900)]
    drawn = draw(*lines, jobs=wide, ends={1: 100, 2: 300})
    snapshot = shaped(in_racks(drawn, "aabbb"), near={5: "rack required"})
    assert planned(plan_cycle(snapshot)) == [(5, (103, 104, 105), 300)]


def test_a_card_is_ready_when_the_last_stranger_has_left_it() -> None:
    """Job 2 is the head's own team's and stays; job 3, a stranger's, leaves the card sooner."""
    drawn = draw("a 2344", jobs=[job(5, "1x1", waited=900)], ends={2: 7200, 3: 60, 4: 5000})
    cut = {"card": [0, 0, 1, 1]}
    tenants = {"tenant": {2: 1, 3: 0, 4: 0}, "shares_cards": {2: True, 3: True, 4: False}}
    snapshot = shaped(drawn, jobs={"tenant": {5: 1}}, held=tenants, devices=cut)
    assert planned(plan_cycle(snapshot)) == [(5, (101,), 60)]
    # Who opted in need not wait for strangers who did, too.
    shares = shaped(snapshot, jobs={"shares_cards": {5: True}}, held={"shares_cards": {4: True}})
    assert planned(plan_cycle(shares)) == [(5, (101,), 60)]
    alone = shaped(snapshot, held={"tenant": {2: 0}})
    assert planned(plan_cycle(alone)) == [(5, (101,), 5000)]
