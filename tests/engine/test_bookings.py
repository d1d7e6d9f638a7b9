"""Bookings: nobody else crosses them, their own jobs run inside, and they keep their nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Slot, SlotKind
from scheduler.engine.policy import Order, Policy
from scheduler.engine.recording.recordings import read_recording, record, write_recording
from scheduler.engine.snapshot import (
    BookedNodes,
    Snapshot,
    SnapshotInvalid,
    ints,
)
from scheduler.states import WaitReason, wait_sentence
from tests.builders import NOW_S, draw, job, picture
from tests.engine.booking import BOOKINGS, booked, places, roomy
from tests.engine.stopping import live
from tests.engine.test_maintenance import closed
from tests.engine.test_properties import snapshots, with_starts

STRICT = Policy(backfill_slack_s=0)


def test_only_jobs_that_are_gone_in_time_start_before_a_booking() -> None:
    jobs = [job(5, limit_s=1001), job(6, limit_s=1000)]
    snapshot = booked(draw("a ....", jobs=jobs), (9, 1, 0, 1000, 2000))
    plan = plan_cycle(snapshot, STRICT)
    assert picture(snapshot, plan) == ["6..."]
    (wait,) = plan.iter_waits()
    assert wait.reason is WaitReason.RESERVATION_CONFLICT
    assert wait.facts["fits_with_limit_s"] == 1000
    sentence = wait_sentence(wait.reason, wait.facts)
    assert sentence.startswith("The GPUs with room for it are booked from 15 Jan 2027, 08:16 UTC")
    assert sentence.endswith("; with a limit of 16 min it could start now.")


def test_the_limit_that_it_names_is_right() -> None:
    def crossing(limit_s: int) -> Snapshot:
        return booked(draw("a ....", jobs=[job(5, limit_s=limit_s)]), (9, 1, 0, 4000, 5000))

    (wait,) = plan_cycle(crossing(7200)).iter_waits()
    assert [start.job for start in plan_cycle(crossing(wait.facts["fits_with_limit_s"])).starts]


def test_a_node_that_is_not_booked_takes_the_job() -> None:
    snapshot = booked(draw("a ....", "b ....", jobs=[job(5)]), (9, 1, 0, 1000, 2000))
    assert picture(snapshot, plan_cycle(snapshot)) == ["....", "5..."]


def test_what_is_booked_in_part_leaves_the_rest_to_others() -> None:
    jobs = [job(5, "1x2", limit_s=5000), job(6, "1x1", limit_s=5000), job(7, "1x1", limit_s=900)]
    snapshot = booked(draw("a ....", jobs=jobs), (9, 1, 2, 1000, 2000))
    plan = plan_cycle(snapshot, STRICT)
    assert picture(snapshot, plan) == ["557."]
    (wait,) = plan.iter_waits()
    assert (wait.job, wait.reason) == (6, WaitReason.RESERVATION_CONFLICT)


def test_during_a_booking_its_own_jobs_run_there_and_nobody_else() -> None:
    jobs = [job(5, limit_s=10), job(6, "1x4", limit_s=9000)]
    snapshot = booked(draw("a ....", jobs=jobs), (9, 1, 0, -10, 5000), inside={6: 9})
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["6666"]
    (start,) = (slot for slot in plan.timeline if slot.kind is SlotKind.START)
    # It is asked to stop a minute before the booking ends, though its limit is longer.
    assert start.until_s == NOW_S + 5000 - 60
    (wait,) = plan.iter_waits()
    assert wait.reason is WaitReason.RESERVATION_CONFLICT
    assert wait_sentence(wait.reason, wait.facts).startswith("The GPUs with room for it are booked")


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [
        (1000, 5000, "Its booking 9 begins at 15 Jan 2027, 08:16 UTC."),
        (-10, 50, "Its booking 9 ends at 15 Jan 2027, 08:00 UTC."),
    ],
)
def test_a_job_of_a_booking_waits_for_it_and_never_starts_outside(begin, end, words) -> None:
    snapshot = booked(draw("a ....", "b ....", jobs=[job(5)]), (9, 1, 0, begin, end), inside={5: 9})
    (wait,) = plan_cycle(snapshot).iter_waits()
    assert wait.reason is WaitReason.RESERVATION_CONFLICT
    assert wait_sentence(wait.reason, wait.facts).startswith(words)


@pytest.mark.parametrize("begin", [-10, 1000])
def test_a_job_is_told_that_its_booking_has_become_too_small(begin) -> None:
    """Two nodes of four GPUs, of which one is booked, or of each two GPUs."""
    jobs, words = [job(5, "2x4")], []
    for nodes, part in ((1, 0), (2, 2)):
        drawn = draw("a ....", "b ....", jobs=jobs)
        snapshot = booked(drawn, (9, nodes, part, begin, 5000), inside={5: 9})
        (wait,) = plan_cycle(snapshot).iter_waits()
        words.append(wait_sentence(wait.reason, wait.facts))
    start = "Its booking 9 is too small for it: "
    assert words == [f"{start}1 node.", f"{start}2 nodes, 2 GPUs of each."]


def test_a_booking_in_part_gives_its_jobs_no_more_than_is_booked() -> None:
    jobs = [job(5, "1x2"), job(6, "1x1")]
    drawn = draw("a ....", jobs=jobs)
    snapshot = booked(drawn, (9, 1, 2, -10, 5000), inside={5: 9, 6: 9})
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["55.."]
    (wait,) = plan.iter_waits()
    assert "no room for it now" in wait_sentence(wait.reason, wait.facts)
    later = booked(
        draw("a 55..", jobs=[job(6), job(7, "1x2")]), (9, 1, 2, -10, 5000), inside={5: 9, 6: 9}
    )
    assert picture(later, plan_cycle(later)) == ["5577"]


def test_a_head_is_planned_behind_what_is_booked_even_when_its_jobs_end_sooner() -> None:
    drawn = draw("a 11..", jobs=[job(5, "1x4", waited=900, limit_s=600)], ends={1: 500})
    snapshot = booked(drawn, (9, 1, 2, -10, 2000), inside={1: 9})
    assert [r.start_s - NOW_S for r in plan_cycle(snapshot, STRICT).reservations] == [2000]


def test_a_booking_keeps_its_nodes_and_moves_only_when_one_goes_out_of_order() -> None:
    free = draw("a ....", "b ....", "c ....")
    assert places(plan_cycle(booked(free, (9, 1, 0, 100, 200)))) == {9: [0]}
    assert places(plan_cycle(booked(free, (9, 1, 0, 100, 200), on=[(9, 1)]))) == {9: [1]}
    broken = draw("a ....", "b .... lost", "c ....")
    assert places(plan_cycle(booked(broken, (9, 1, 0, 100, 200), on=[(9, 1)]))) == {9: [0]}
    late = draw("a ....", "b 1...", "c ....", ends={1: 900})
    assert places(plan_cycle(booked(late, (9, 1, 0, 100, 200), on=[(9, 1)]))) == {9: [0]}


def test_two_bookings_at_once_get_different_nodes_and_keep_off_maintenance() -> None:
    snapshot = closed(draw("a ....", "b ....", "c ...."), (3, "0", 150, 160))
    both = booked(snapshot, (9, 1, 0, 100, 200), (8, 1, 0, 50, 120))
    assert places(plan_cycle(both)) == {8: [0], 9: [1]}
    after = booked(snapshot, (9, 1, 0, 100, 140), (8, 1, 0, 140, 150))
    assert places(plan_cycle(after)) == {9: [0], 8: [0]}


def test_parts_that_follow_each_other_leave_room_for_one_beside_both() -> None:
    parts = booked(draw("a ...."), (1, 1, 2, 100, 200), (2, 1, 2, 200, 300), (3, 1, 2, 100, 300))
    assert places(plan_cycle(parts)) == {1: [0], 2: [0], 3: [0]}


def test_jobs_of_a_higher_tier_stop_nobody_on_booked_gpus() -> None:
    drawn = live(draw("a 11..", jobs=[job(5, "1x4", tier=40)]), job(1, "1x2", tier=10))
    snapshot = booked(drawn, (9, 1, 0, -10, 5000))
    assert plan_cycle(drawn, Policy(preempts=True)).stops
    assert plan_cycle(snapshot, Policy(preempts=True)).stops == ()


def test_bad_bookings_are_refused_by_name() -> None:
    drawn = draw("a ....", jobs=[job(5)])
    with pytest.raises(SnapshotInvalid, match=r"bookings\.from_s"):
        plan_cycle(booked(drawn, (9, 1, 0, 200, 100)))
    with pytest.raises(SnapshotInvalid, match=r"bookings\.nodes"):
        plan_cycle(booked(drawn, (9, 0, 0, 100, 200)))
    wild = replace(drawn, waiting=replace(drawn.waiting, booking=ints([3])))
    with pytest.raises(SnapshotInvalid, match=r"waiting\.booking"):
        plan_cycle(wild)


def _meet(one: Slot, other: Slot) -> bool:
    """Whether they are on a node at the same time."""
    at_once = one.from_s < other.until_s and other.from_s < one.until_s
    return at_once and bool(set(one.nodes) & set(other.nodes))


@given(roomy(), BOOKINGS, st.data(), st.integers(1, 3), st.sampled_from([Order.FAIR, Order.FIFO]))
def test_nothing_crosses_a_booking_that_it_does_not_belong_to(
    snapshot, bookings, data, heads, order
) -> None:
    ids = snapshot.waiting.id.tolist()
    chosen = data.draw(st.sets(st.sampled_from(ids)), label="jobs of the first booking")
    inside = dict.fromkeys(chosen, bookings[0][0])
    plan = plan_cycle(booked(snapshot, *bookings, inside=inside), Policy(heads=heads, order=order))
    answered = [start.job for start in plan.starts] + [wait.job for wait in plan.iter_waits()]
    assert sorted(answered) == sorted(ids)
    assert all(wait.reason is not WaitReason.EVALUATING for wait in plan.iter_waits())
    kept = {slot.owner: slot for slot in plan.timeline if slot.kind is SlotKind.BOOKING}
    jobs = [one for one in plan.timeline if one.kind in (SlotKind.START, SlotKind.HEAD)]
    for number, _, gpus, _, _ in bookings:
        others = [slot for slot in jobs if inside.get(slot.owner) != number]
        if not gpus and number in kept:
            assert not any(_meet(kept[number], slot) for slot in others)
    for slot in jobs:
        if slot.owner in inside:
            mine = kept[inside[slot.owner]]
            assert set(slot.nodes) <= set(mine.nodes)
            assert mine.from_s <= slot.from_s and slot.until_s <= mine.until_s


@given(roomy(), BOOKINGS, st.integers(1, 3))
def test_what_is_booked_is_free_when_it_begins_if_nothing_ran_before(
    snapshot, bookings, heads
) -> None:
    """Through three cycles nothing starts on its GPUs that is there then, and its nodes stay."""
    policy, number = Policy(heads=heads), [one[0] for one in bookings]
    snapshot = booked(snapshot, *bookings)
    ran_before = set(snapshot.held.job.tolist())
    expected = places(plan_cycle(snapshot, policy))
    for _ in range(3):
        plan = plan_cycle(snapshot, policy)
        assert places(plan) == expected
        where = [(number.index(own), node) for own, nodes in expected.items() for node in nodes]
        remembered = BookedNodes(ints([own for own, _ in where]), ints([node for _, node in where]))
        snapshot = replace(with_starts(snapshot, plan), booked_nodes=remembered)
    held, devices = snapshot.held, snapshot.devices
    for own, _, gpus, begin, _ in bookings:
        for node in expected.get(own, ()):
            then = (held.node == node) & (held.until_s > NOW_S + begin)
            new = [job for job in held.job[then].tolist() if job not in ran_before]
            if not gpus:
                assert not new
            elif len(new) == np.count_nonzero(then):
                taken = np.isin(devices.holder, np.flatnonzero(then))
                free = devices.is_healthy & (devices.node == node) & ~taken
                assert int(free.sum()) >= gpus


@given(snapshots(), st.integers(1, 3))
def test_without_bookings_a_plan_is_what_it_was(snapshot: Snapshot, heads: int) -> None:
    """A booking of another pool, or one that is over, changes nothing either."""
    policy = Policy(heads=heads)
    over = replace(booked(snapshot, (9, 1, 0, -100, -50)))
    plan, other = plan_cycle(snapshot, policy), plan_cycle(over, policy)
    assert (plan.starts, plan.reservations, plan.timeline) == (
        other.starts,
        other.reservations,
        other.timeline,
    )
    assert list(plan.iter_waits()) == list(other.iter_waits())


def test_bookings_survive_a_recording() -> None:
    snapshot = booked(draw("a ....", jobs=[job(5)]), (9, 1, 0, 100, 200), inside={5: 9})
    kept = record(snapshot, Policy())
    assert read_recording(write_recording(kept)).replay() == kept.plan
