"""Bookings on nodes with GPUs of several models: what is kept of one is not kept of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Headroom, Snapshot, ints
from tests.builders import NOW_S, draw, job, picture
from tests.engine.booking import booked, places

STRICT = Policy(backfill_slack_s=0)
A100, H100 = 0, 1


def mixed(*lines: str, jobs=(), ends=None) -> Snapshot:
    """As drawn, the first four devices of each node A100, the others H100."""
    drawn = draw(*lines, "z model=A100", jobs=jobs, ends=ends)
    place = np.concatenate([np.arange(n) for n in np.bincount(drawn.devices.node)])
    return replace(
        drawn, devices=replace(drawn.devices, model=ints(np.where(place < 4, A100, H100)))
    )


def wanting(model: int, *numbers: int):
    """A job for each number: four GPUs of the model for two hours."""
    return [
        job(number, "1x4", limit_s=7200, model=("A100", "H100", "")[model]) for number in numbers
    ]


@pytest.mark.parametrize("begin", [-10, 1000])
def test_the_other_model_is_nobodys(begin) -> None:
    """Four A100 are booked: who wants these waits, who wants the four H100 starts."""
    snapshot = booked(
        mixed("a .... ....", jobs=[*wanting(A100, 5), *wanting(H100, 6)]),
        (9, 1, 4, begin, 9000),
        model=A100,
    )
    plan = plan_cycle(snapshot, STRICT)
    assert picture(snapshot, plan)[0] == ".... 6666"
    assert [wait.job for wait in plan.iter_waits()] == [5]


def test_headroom_of_a_model_keeps_that_alone() -> None:
    drawn = mixed("a ........", jobs=[*wanting(A100, 5), *wanting(H100, 6)])
    snapshot = replace(drawn, headroom=Headroom(ints([7]), ints([0]), ints([A100]), ints([4])))
    plan = plan_cycle(snapshot, STRICT)
    assert [start.job for start in plan.starts] == [6]


def test_what_is_kept_for_a_head_is_of_its_model() -> None:
    """Two of the A100 are another's for long: the head waits for them, and keeps no H100."""
    jobs = [
        job(5, "1x4", model="A100", waited=900, limit_s=600),
        *wanting(H100, 6),
        job(7, "1x2", model="A100", limit_s=7200),
    ]
    snapshot = mixed("a 11......", jobs=jobs, ends={1: 1000})
    plan = plan_cycle(snapshot, STRICT)
    assert [start.job for start in plan.starts] == [6]
    assert [head.start_s - NOW_S for head in plan.reservations] == [1000]


def test_a_head_is_planned_past_what_is_booked_of_another_model() -> None:
    """The H100 are free in 500 s, though the A100 are booked until 9000 s from now."""
    jobs = [job(5, "1x4", model="H100", waited=900, limit_s=600)]
    snapshot = booked(
        mixed("a ....1111", jobs=jobs, ends={1: 500}), (9, 1, 4, 100, 9000), model=A100
    )
    assert [head.start_s - NOW_S for head in plan_cycle(snapshot, STRICT).reservations] == [500]


def test_each_model_can_be_booked_and_any_gets_what_they_leave() -> None:
    free = mixed("a ........")
    both = booked(free, (8, 1, 4, 100, 900), (9, 1, 4, 100, 900))
    for models in ((A100, H100), (NONE, A100), (A100, NONE)):
        snapshot = replace(both, bookings=replace(both.bookings, model=ints(models)))
        assert places(plan_cycle(snapshot)) == {8: [0], 9: [0]}
    third = booked(free, (7, 1, 1, 50, 900), (8, 1, 4, 100, 900), (9, 1, 4, 100, 900))
    for three in ((NONE, A100, H100), (H100, A100, H100), (NONE, NONE, A100)):
        snapshot = replace(third, bookings=replace(third.bookings, model=ints(three)))
        assert places(plan_cycle(snapshot)) == {7: [0], 8: [0], 9: []}


def test_a_job_inside_gets_the_model_that_is_booked_unless_all_is() -> None:
    """It takes any; the H100 are free as well, and would be the tighter fit."""
    drawn = mixed("a .... ...1", jobs=[job(5, "1x2")])
    part = booked(drawn, (9, 1, 4, -10, 9000), inside={5: 9}, model=A100)
    assert picture(part, plan_cycle(part))[0] == "55.. ...1"
    whole = booked(drawn, (9, 1, 0, -10, 9000), inside={5: 9}, model=A100)
    assert plan_cycle(whole).starts[0].placements[0].devices == (1005, 1006)


@pytest.mark.parametrize("model", ["A100", "H100"])
def test_a_job_inside_gets_the_model_that_it_asks_for_where_any_whole_card_is_booked(
    model: str,
) -> None:
    """A card in parts elsewhere makes "any" a set of all whole cards."""
    drawn = draw(
        "a .... model=A100",
        "b .... model=H100",
        "c . pool=other model=part",
        jobs=[job(5, "1x2", model=model), job(6, "1x1")],
    )
    assert drawn.models == ("A100", "H100", "part")
    parts = replace(drawn, model_sets=((A100, H100),))
    snapshot = booked(parts, (9, 2, 2, -10, 9000), inside={5: 9, 6: 9}, model=3)
    found = {start.job: start.placements[0].node for start in plan_cycle(snapshot, STRICT).starts}
    assert found[5] == {"A100": 101, "H100": 102}[model] and found.keys() == {5, 6}


def test_a_forecast_looks_past_what_is_booked_of_another_model() -> None:
    """Behind the head of the line: two hours of A100 do not fit before they are booked."""
    first = job(4, "1x1", model="H100", waited=9, limit_s=60)
    jobs = [first, *wanting(A100, 5), *wanting(H100, 6)]
    snapshot = booked(
        mixed("a 22223333", jobs=jobs, ends={2: 500, 3: 500}), (9, 1, 4, 1000, 9000), model=A100
    )
    waits = plan_cycle(snapshot, STRICT).waits
    late_s = dict(
        zip(waits.job.tolist(), (waits.forecast.columns[1] - NOW_S).tolist(), strict=True)
    )
    assert late_s[5] == 9000
    assert late_s[6] < 1000


@pytest.mark.parametrize("begin", [-10, 1000])
def test_who_takes_any_model_takes_what_is_not_booked(begin) -> None:
    """The A100 are booked, now or soon: of eight devices those behind them are taken."""
    drawn = mixed("a ........", jobs=[job(5, "1x3", limit_s=7200), job(6, "1x2", limit_s=7200)])
    snapshot = booked(drawn, (9, 1, 4, begin, 9000), model=A100)
    plan = plan_cycle(snapshot, STRICT)
    assert [start.placements[0].devices for start in plan.starts] == [(1005, 1006, 1007)]
    assert [wait.job for wait in plan.iter_waits()] == [6]


def test_a_job_in_a_booking_of_any_model_starts_beside_one_of_a_model() -> None:
    drawn = mixed("a ........", jobs=[job(5, "1x4"), *wanting(A100, 6)])
    both = booked(drawn, (8, 1, 4, -10, 9000), (9, 1, 4, -10, 9000), inside={5: 8, 6: 9})
    for order in ((5, 6), (6, 5)):
        waited = np.array([float(order.index(number)) for number in both.waiting.id.tolist()])
        snapshot = replace(
            both,
            bookings=replace(both.bookings, model=ints([NONE, A100])),
            waiting=replace(both.waiting, queued_at_s=NOW_S - 9 + waited),
        )
        starts = plan_cycle(snapshot, STRICT).starts
        assert {start.job: start.placements[0].devices[0] for start in starts} == {5: 1005, 6: 1001}


def test_of_two_booked_models_the_one_of_later_is_taken() -> None:
    """An hour fits before the H100 are booked, not before the A100 are."""
    drawn = mixed("a ........", jobs=[job(5, "1x4", limit_s=3600)])
    for soon in (A100, H100):
        snapshot = booked(drawn, (8, 1, 4, 1000, 9000), (9, 1, 4, 5000, 9000))
        models = ints([soon, A100 + H100 - soon])
        snapshot = replace(snapshot, bookings=replace(snapshot.bookings, model=models))
        (start,) = plan_cycle(snapshot, STRICT).starts
        assert start.placements[0].devices[0] == (1005 if soon == A100 else 1001)
