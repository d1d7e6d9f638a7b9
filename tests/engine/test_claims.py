"""What becomes of the room that others make for a job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.snapshot import NONE, Snapshot, flags
from scheduler.states import Tier, WaitReason, wait_sentence
from tests.builders import draw, job
from tests.engine.shaping import licensed
from tests.engine.stopping import TIERS, claimed, live, starts, stops

URGENT = Tier.URGENT


def urgent_on_full() -> Snapshot:
    waiting = [job(3, "1x3", tier=URGENT), job(4, "1x1", waited=9999), job(5, "1x1")]
    return live(draw("a 1111", "b 2222", jobs=waiting), job(1, "1x4"), job(2, "1x4"))


def test_while_they_leave_it_waits_for_just_that_and_nobody_else_is_stopped():
    snapshot = urgent_on_full()
    first = plan_cycle(snapshot, TIERS)
    assert stops(first) == [(1, 3)]
    plan = plan_cycle(claimed(snapshot, first), TIERS)
    assert plan.stops == () and plan.starts == ()
    wait = next(wait for wait in plan.iter_waits() if wait.job == 3)
    assert wait.reason is WaitReason.PREEMPTION_IN_PROGRESS
    assert wait.facts["victims"] == [1]
    assert "job 1 is stopping" in wait_sentence(wait.reason, wait.facts)
    assert len(plan.waits) == 3


def test_what_was_made_free_goes_to_nobody_else():
    snapshot = urgent_on_full()
    after = claimed(snapshot, plan_cycle(snapshot, TIERS), gone=True)
    plan = plan_cycle(after, TIERS)
    # The fourth GPU of the node is left over; the oldest of the others has it.
    assert starts(plan) == {3: [101], 4: [101]}
    assert [wait.job for wait in plan.iter_waits()] == [5]


def test_whose_queue_was_paused_meanwhile_does_not_start():
    snapshot = urgent_on_full()
    after = claimed(snapshot, plan_cycle(snapshot, TIERS), gone=True)
    plan = plan_cycle(replace(after, queue_is_paused=flags([True])), TIERS)
    assert plan.starts == ()
    assert {wait.reason for wait in plan.iter_waits()} == {WaitReason.POOL_CLOSED}


def test_one_gpu_out_of_order_and_it_does_not_start_with_less():
    snapshot = urgent_on_full()
    after = claimed(snapshot, plan_cycle(snapshot, TIERS), gone=True)
    healthy = after.devices.is_healthy.copy()
    healthy[np.flatnonzero(after.devices.claim != NONE)[0]] = False
    plan = plan_cycle(replace(after, devices=replace(after.devices, is_healthy=healthy)), TIERS)
    assert 3 not in starts(plan)


def test_a_licence_that_went_meanwhile_is_waited_for_and_one_that_is_there_is_taken():
    """Devices are kept while others leave; licences are not."""
    snapshot = urgent_on_full()
    after = claimed(snapshot, plan_cycle(snapshot, TIERS), gone=True)
    asks = {3: {"sim": 1}, 4: {"sim": 1}}
    for total, begins in ((1, []), (2, [3]), (3, [3, 4])):
        plan = plan_cycle(licensed(after, {"sim": total}, asks, [(9, "sim", 1, 60)]), TIERS)
        assert sorted(starts(plan)) == begins
        waits = {wait.job: wait.reason for wait in plan.iter_waits()}
        assert waits.get(3, WaitReason.LICENCE_WAIT) is WaitReason.LICENCE_WAIT


def test_two_beneficiaries_of_one_cycle_never_get_the_same_gpus():
    waiting = [job(3, "1x2", tier=URGENT), job(4, "1x2", tier=Tier.PRODUCTION)]
    snapshot = live(draw("a 1122", jobs=waiting), job(1, "1x2"), job(2, "1x2"))
    plan = plan_cycle(snapshot, TIERS)
    assert sorted(beneficiary for _, beneficiary in stops(plan)) == [3, 4]
    given = [device for start in plan.starts for p in start.placements for device in p.devices]
    assert len(given) == len(set(given)) == 4
