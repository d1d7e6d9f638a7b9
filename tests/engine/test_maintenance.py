"""Maintenance windows: no job crosses them, and each says what would help."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import SlotKind
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Snapshot, SnapshotInvalid, Windows, floats, ints
from scheduler.states import WaitReason, wait_sentence
from tests.builders import NOW_S, draw, job, picture
from tests.engine.test_properties import snapshots

STRICT = Policy(backfill_slack_s=0)


def closed(snapshot: Snapshot, *windows: tuple[int, str, float, float]) -> Snapshot:
    """The same with windows: id, node rows as digits, from and until in seconds from now."""
    rows = [(number, int(node), a, b) for number, nodes, a, b in windows for node in nodes]
    number, node, begin, end = zip(*rows, strict=True)
    return replace(
        snapshot,
        windows=Windows(ints(number), ints(node), NOW_S + floats(begin), NOW_S + floats(end)),
    )


def test_only_jobs_that_are_gone_in_time_start_before_a_window() -> None:
    jobs = [job(5, limit_s=1001), job(6, limit_s=1000)]
    snapshot = closed(draw("a ....", jobs=jobs), (9, "0", 1000, 2000))
    plan = plan_cycle(snapshot, STRICT)
    assert picture(snapshot, plan) == ["6..."]
    (wait,) = plan.iter_waits()
    assert wait.reason is WaitReason.MAINTENANCE_CONFLICT
    assert wait.facts["fits_with_limit_s"] == 1000
    sentence = wait_sentence(wait.reason, wait.facts)
    assert sentence.endswith("; with a limit of 16 min it could start now.")


def test_the_limit_that_it_names_is_right() -> None:
    snapshot = closed(draw("a ....", jobs=[job(5, limit_s=7200)]), (9, "0", 4000, 5000))
    (wait,) = plan_cycle(snapshot).iter_waits()
    limit = wait.facts["fits_with_limit_s"]
    assert limit == 4000 - Policy().backfill_slack_s
    shorter = closed(draw("a ....", jobs=[job(5, limit_s=limit)]), (9, "0", 4000, 5000))
    assert [start.job for start in plan_cycle(shorter).starts] == [5]


def test_a_node_that_is_not_in_the_window_takes_the_job() -> None:
    snapshot = closed(draw("a 1...", "b ....", jobs=[job(5)]), (9, "0", 1000, 2000))
    assert picture(snapshot, plan_cycle(snapshot)) == ["1...", "5..."]


def test_during_a_window_nothing_starts_and_afterwards_it_does() -> None:
    drawn = draw("a ....", jobs=[job(5)])
    assert plan_cycle(closed(drawn, (9, "0", -10, 100))).starts == ()
    assert len(plan_cycle(closed(drawn, (9, "0", -100, 0))).starts) == 1


def test_a_head_is_planned_behind_the_window_that_it_would_cross() -> None:
    snapshot = draw("a 1...", jobs=[job(5, "1x4", waited=900, limit_s=600)], ends={1: 500})
    plan = plan_cycle(closed(snapshot, (9, "0", 1000, 2000)), STRICT)
    assert [r.start_s - NOW_S for r in plan.reservations] == [2000]
    kinds = [(slot.kind, slot.owner) for slot in plan.timeline]
    assert kinds == [(SlotKind.MAINTENANCE, 9), (SlotKind.HEAD, 5)]


def test_a_busy_node_before_a_window_is_a_matter_of_the_window() -> None:
    snapshot = closed(draw("a 1111", jobs=[job(5)]), (9, "0", 1000, 2000))
    (wait,) = plan_cycle(snapshot).iter_waits()
    assert wait.reason is WaitReason.MAINTENANCE_CONFLICT
    assert wait.facts["fits_with_limit_s"] is None


def test_a_window_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(SnapshotInvalid, match=r"windows\.from_s"):
        plan_cycle(closed(draw("a ...."), (9, "0", 100, 100)))


_window = st.tuples(
    st.integers(1, 3),
    st.sampled_from(["0", "1", "01"]),
    st.sampled_from([-50.0, 50.0, 700.0]),
    st.sampled_from([60.0, 800.0, 9000.0]),
).filter(lambda window: window[2] < window[3])


@given(
    snapshots(),
    st.lists(_window, min_size=1, max_size=3, unique_by=lambda w: w[0]),
    st.integers(1, 3),
)
def test_no_start_and_no_plan_ever_crosses_a_window(snapshot, windows, heads) -> None:
    nodes = snapshot.nodes.id.tolist()
    windows = [
        (n, "".join(c for c in rows if int(c) < len(nodes)), a, b) for n, rows, a, b in windows
    ]
    if not any(rows for _, rows, _, _ in windows):
        return
    snapshot = closed(snapshot, *windows)
    plan = plan_cycle(snapshot, Policy(heads=heads))
    answered = [start.job for start in plan.starts] + [wait.job for wait in plan.iter_waits()]
    assert sorted(answered) == sorted(snapshot.waiting.id.tolist())
    for slot in plan.timeline:
        if slot.kind in (SlotKind.START, SlotKind.HEAD):
            for _, rows, begin, end in windows:
                if {nodes[int(row)] for row in rows} & set(slot.nodes):
                    assert slot.until_s <= NOW_S + begin or slot.from_s >= NOW_S + end
