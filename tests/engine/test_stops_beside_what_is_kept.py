"""What is kept keeps a job off its own nodes, and shields nobody who runs on others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.plan import Plan, Reservation
from scheduler.engine.preempting.clearing import Clearer
from scheduler.engine.snapshot import Snapshot
from scheduler.states import Tier
from tests.builders import NOW_S, draw, job
from tests.engine.booking import booked
from tests.engine.owners import limit
from tests.engine.stopping import TIERS, live, starts, stops
from tests.engine.test_maintenance import closed
from tests.engine.test_reclaiming import lent

HOUR_S = 3600
DAY_S = 24 * HOUR_S
# In maintenance, before a window that the job would meet, and before a booking.
KEPT = {
    "now": lambda snapshot: closed(snapshot, (9, "0", -60, HOUR_S)),
    "soon": lambda snapshot: closed(snapshot, (9, "0", HOUR_S, 3 * HOUR_S)),
    "booked": lambda snapshot: booked(snapshot, (9, 1, 0, HOUR_S, 3 * HOUR_S), on=[(9, 0)]),
}


def production(**more: float) -> Snapshot:
    """Node a is idle; b and c are full of normal jobs, of which 2 loses the least."""
    waiting = [job(5, "1x4", tier=Tier.PRODUCTION, limit_s=2 * HOUR_S)]
    snapshot = draw("a ....", "b 2222", "c 3333", jobs=waiting, ends={2: 9 * DAY_S, 3: 9 * DAY_S})
    ages: dict[str, list[float]] = {"ran_s": [5000, 5000], "checkpoint_age_s": [30, 900]}
    return live(snapshot, job(2, "1x4"), job(3, "1x4"), **ages)


@pytest.mark.parametrize("kept", KEPT)
def test_an_idle_node_that_is_kept_shields_nobody_on_the_others(kept: str) -> None:
    plan = plan_cycle(KEPT[kept](production()), TIERS)
    assert stops(plan) == [(2, 5)] and starts(plan) == {5: [102]}


def owners_node(*waiting, kept: str, **owners: str) -> Snapshot:
    """Node a is idle and kept; speech runs on b what vision lent."""
    limits = [limit("vision", guaranteed=4), limit("speech", guaranteed=0)]
    return KEPT[kept](
        lent(
            draw("a ....", "b 2222", jobs=waiting, ends={2: 9 * DAY_S}),
            job(2, "1x4"),
            owners={2: "speech", **{int(number[1:]): whose for number, whose in owners.items()}},
            limits=limits,
        )
    )


@pytest.mark.parametrize("kept", KEPT)
def test_an_owner_takes_back_what_it_lent_beside_an_idle_node_that_is_kept(kept: str) -> None:
    snapshot = owners_node(job(5, "1x4", limit_s=2 * HOUR_S), kept=kept, _5="vision")
    assert stops(plan_cycle(snapshot, TIERS)) == [(2, 5)]


def test_an_equal_job_of_somebody_else_that_is_kept_off_does_not_stand_in_the_way() -> None:
    waiting = [job(4, "1x4", waited=100, limit_s=2 * HOUR_S), job(5, "1x4", limit_s=2 * HOUR_S)]
    snapshot = owners_node(*waiting, kept="soon", _4="speech", _5="vision")
    assert stops(plan_cycle(snapshot, TIERS)) == [(2, 5)]


def test_what_was_not_enough_beside_something_kept_may_be_without_it() -> None:
    """Job 4 would be on b when its window begins, job 5 is gone by then."""
    waiting = [
        job(4, "1x4", waited=100, limit_s=9 * HOUR_S),
        job(5, "1x4", limit_s=2 * HOUR_S, cpus=2),
    ]
    snapshot = owners_node(*waiting, kept="now", _4="vision", _5="vision")
    windows = (9, "0", -60, HOUR_S), (8, "1", 4 * HOUR_S, 5 * HOUR_S)
    assert stops(plan_cycle(closed(snapshot, *windows), TIERS)) == [(2, 5)]


def test_a_class_that_may_stop_nobody_is_not_searched_for_each_of_its_jobs(monkeypatch) -> None:
    """Each of fifty jobs of two teams is too long for both nodes."""
    waiting = [job(number, "1x4", limit_s=2 * HOUR_S) for number in range(10, 60)]
    owners = {f"_{one.id}": ("vision", "speech")[one.id % 2] for one in waiting}
    snapshot = owners_node(*waiting, kept="soon", **owners)
    snapshot = closed(snapshot, (9, "01", HOUR_S, 3 * HOUR_S))
    tried: list[int] = []
    clear = Clearer.clear

    def counted(self, row, *args, **more):
        tried.append(row)
        return clear(self, row, *args, **more)

    monkeypatch.setattr(Clearer, "clear", counted)
    assert plan_cycle(snapshot, TIERS).starts == ()
    assert 1 <= len(tried) <= 3


@pytest.mark.parametrize("begin_s", [90 * DAY_S, 2 * HOUR_S + 900])
def test_maintenance_that_a_job_does_not_meet_shields_nobody(begin_s: float) -> None:
    snapshot = closed(production(), (9, "0", -60, HOUR_S), (8, "12", begin_s, begin_s + 600))
    assert stops(plan_cycle(snapshot, TIERS)) == [(2, 5)]


def test_maintenance_that_a_job_would_meet_keeps_its_node() -> None:
    snapshot = closed(production(), (9, "0", -60, HOUR_S), (8, "1", HOUR_S, 2 * HOUR_S))
    assert stops(plan_cycle(snapshot, TIERS)) == [(3, 5)]


def promised(heads: int) -> Plan:
    """A gang was promised both nodes in the cycle before; then production comes."""
    policy = replace(TIERS, heads=heads)
    gang = job(4, "2x4", waited=9000)
    running, ends = [job(1, "1x4"), job(2, "1x4")], {1: HOUR_S, 2: HOUR_S}
    before = live(draw("a 1111", "b 2222", jobs=[gang], ends=ends), *running)
    told = plan_cycle(before, policy).reservations
    assert told == (Reservation(4, (101, 102), NOW_S + HOUR_S),)
    waiting = [gang, job(5, "1x4", tier=Tier.PRODUCTION)]
    then = live(draw("a 1111", "b 2222", jobs=waiting, ends=ends), *running)
    return plan_cycle(with_promises(then, told), policy)


def test_what_a_lower_tier_was_promised_shields_nobody_from_a_higher_one() -> None:
    one, two = promised(1), promised(2)
    assert len(stops(one)) == 1 and set(starts(one)) == {5}
    assert stops(two) == stops(one) and starts(two) == starts(one)
    assert two.reservations == one.reservations
