"""Who decides many times about one cluster gets just what each decision alone would say."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine import cycle
from scheduler.engine.asking import blocking_facts, what_if, with_limit, with_tier
from scheduler.engine.asking.counterfactual import _changed
from scheduler.engine.asking.edits import other_changes, shorter, smaller
from scheduler.engine.cycle import Known, decide, plan_cycle
from scheduler.engine.keeping.calendar import keep_calendar
from scheduler.engine.policy import DEFAULT_POLICY, Policy
from scheduler.engine.recording import plan_bytes
from scheduler.engine.snapshot import NONE, Headroom, Snapshot, Windows, floats, ints
from tests.builders import NOW_S, draw, job
from tests.engine.booking import BOOKINGS, booked, roomy
from tests.engine.test_properties import snapshots
from tests.engine.test_shape_properties import shapes

POLICIES = (
    DEFAULT_POLICY,
    Policy(backfill_slack_s=30, heads=3),
    Policy(preempts=True, head_patience_s=float("inf")),
)


@st.composite
def calendars(drawing: st.DrawFn) -> Snapshot:
    """Any cluster, or one with bookings, with windows of maintenance and headroom on most."""
    snapshot = drawing(st.one_of(snapshots(), shapes(), roomy()))
    jobs = [*snapshot.waiting.id.tolist(), *snapshot.held.job.tolist()]
    if "default" in snapshot.pools and drawing(st.booleans()):
        bookings = drawing(BOOKINGS)
        inside = {one: bookings[0][0] for one in jobs if drawing(st.integers(0, 3)) == 0}
        snapshot = booked(snapshot, *bookings, inside=inside)
    nodes = len(snapshot.nodes.id)
    if nodes and drawing(st.booleans()):
        rows = [drawing(st.integers(0, nodes - 1)) for _ in range(2)]
        begins = NOW_S + floats([drawing(st.sampled_from([-60, 300, 4000])) for _ in rows])
        windows = Windows(ints([1, 2]), ints(rows), begins, begins + 3600)
        snapshot = replace(snapshot, windows=windows)
    if "default" in snapshot.pools and drawing(st.booleans()):
        pool, users = snapshot.pools.index("default"), jobs[::3]
        snapshot = replace(
            snapshot,
            headroom=Headroom(ints([7]), ints([pool]), ints([NONE]), ints([2])),
            waiting=replace(snapshot.waiting, uses_headroom=np.isin(snapshot.waiting.id, users)),
            held=replace(snapshot.held, uses_headroom=np.isin(snapshot.held.job, users)),
        )
    return snapshot


@settings(max_examples=80, deadline=None)
@given(calendars(), st.sampled_from(POLICIES), st.data())
def test_decisions_that_share_a_board_are_those_of_each_alone(
    snapshot: Snapshot, policy: Policy, data: st.DataObject
) -> None:
    """What is booked, closed or kept is laid out once; changes of any job are tried on it, and
    nothing that one decision charges is seen by the next."""
    ids = snapshot.waiting.id.tolist()
    if not ids:
        return
    known, pools = Known(), [(row, 0) for row in range(len(snapshot.pools))]
    for turn in range(5):
        row = data.draw(st.integers(0, len(ids) - 1))
        few = shorter(snapshot, row), *smaller(snapshot, row), other_changes(snapshot, row, pools)
        edits = list(chain(*few))
        changed = snapshot
        if edits and turn:
            changed = _changed(snapshot, row, data.draw(st.sampled_from(edits)))
        if turn == 2:
            # Of a job that waits this makes columns anew that say the same, of others another end.
            held = snapshot.held.job.tolist()
            whose = data.draw(st.sampled_from([*held, ids[row]]))
            changed = with_tier(with_limit(changed, whose, 600), ids[row], 20)
        shared, alone = decide(changed, policy, known), decide(changed, policy)
        assert plan_bytes(shared.plan) == plan_bytes(alone.plan)
        told = [blocking_facts(one, policy, ids[row]) for one in (shared, alone)]
        assert told[0] == told[1]


def test_a_board_is_made_once_for_a_cluster_and_anew_for_another() -> None:
    snapshot = draw("a 11..", "b 22..", jobs=[job(5, "2x4"), job(6, "1x4")])
    with patch.object(cycle, "keep_calendar", wraps=keep_calendar) as laid_out:
        answer = what_if(snapshot, DEFAULT_POLICY, 5)
        assert answer is not None and answer.tried > 2 and laid_out.call_count == 1
        laid_out.reset_mock()
        known = Known()
        for changed in (snapshot, with_limit(snapshot, 5, 60), with_tier(snapshot, 5, 20)):
            plan_cycle(changed, DEFAULT_POLICY, known)
        assert laid_out.call_count == 1
        plan_cycle(with_limit(snapshot, 1, 3600), DEFAULT_POLICY, known)
        assert laid_out.call_count == 2
