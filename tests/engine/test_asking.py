"""All that blocks a job and what would help it, each verified by the engine itself."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.asking import Blocking, blocking_facts, what_if
from scheduler.engine.asking.counterfactual import _changed
from scheduler.engine.asking.edits import other_changes, shorter, smaller
from scheduler.engine.checks import check_snapshot
from scheduler.engine.cycle import decide, plan_cycle
from scheduler.engine.forecasting import starts
from scheduler.engine.forecasting.laying import lay_out
from scheduler.engine.policy import DEFAULT_POLICY
from scheduler.engine.sharing.fairshare import LineUps
from scheduler.engine.snapshot import Snapshot
from scheduler.states import Tier, WaitReason
from tests.builders import NOW_S, draw, job
from tests.engine.owners import limit, shared_by
from tests.engine.shaping import in_racks, licensed, shaped
from tests.engine.test_properties import snapshots


def blocked(snapshot: Snapshot, job_id: int = 5) -> Blocking:
    found = blocking_facts(decide(snapshot), DEFAULT_POLICY, job_id)
    assert found is not None
    return found


def test_every_failing_check_is_listed_not_only_the_top_one() -> None:
    snapshot = draw(
        "a 11..", "b 22.. silent", jobs=[job(5, "2x3", queue="night")], paused=["night"]
    )
    found = blocked(snapshot)
    assert found.wait is not None
    assert found.wait.reason is WaitReason.POOL_CLOSED
    failing = {one.reason: (one.need, one.have) for one in found.checks if not one.is_ok}
    assert failing == {
        WaitReason.POOL_CLOSED: ("queue night open", "paused"),
        WaitReason.NODES_UNHEALTHY: ("2 nodes in order", "1 in order"),
        WaitReason.CAPACITY_BUSY: ("6 GPUs free", "2 free"),
        WaitReason.TOPOLOGY_FRAGMENTED: ("2 nodes with room", "0 nodes with room"),
    }
    assert [one.reason for one in found.checks] == sorted(
        (one.reason for one in found.checks), key=list(WaitReason).index
    )
    assert all(one.sentence for one in found.checks if not one.is_ok)


def test_what_passes_says_of_what_there_is_none() -> None:
    checks = blocked(draw("a 11..", jobs=[job(5, "1x4")])).checks
    passing = {one.reason: (one.need, one.have) for one in checks if one.is_ok}
    assert passing[WaitReason.MAINTENANCE_CONFLICT] == (
        "no maintenance that it would cross",
        "none",
    )
    assert all(need and have for need, have in passing.values())


def test_while_an_account_is_over_a_limit_nobody_says_that_it_may_borrow() -> None:
    def told(**most: int) -> list[tuple[bool, str, str]]:
        cluster = draw("a 1..", "b 2..", jobs=[job(5, "1x3")])
        owners = {1: "a", 2: "a", 5: "a"}
        snapshot = shared_by(cluster, "org", "org/a", owners=owners, limits=[limit("a", **most)])
        return [
            (one.is_ok, one.need, one.have)
            for one in blocked(snapshot).checks
            if one.reason is WaitReason.QUOTA_BORROW_LIMIT
        ]

    assert told(maximum=4) == []
    assert told(maximum=9) == [(True, "GPUs to share or borrow", "enough")]


def test_room_on_nodes_is_not_called_apart_where_too_few_gpus_are_free() -> None:
    def room(*lines: str) -> str:
        checks = blocked(draw(*lines, jobs=[job(5, "2x3")])).checks
        (told,) = (one for one in checks if one.reason is WaitReason.TOPOLOGY_FRAGMENTED)
        return told.sentence

    assert room("a 11..", "b 222.") == (
        "Needs 2 nodes × 3 GPUs; 3 of 8 GPUs in pool default are free, too few for it; "
        "nodes with room for it now: 0."
    )
    assert room("a 111.", "b 22..", "c 3...") == (
        "Needs 2 nodes × 3 GPUs; 6 GPUs in pool default are free, but not together: "
        "nodes with room for it now: 1."
    )


def test_who_could_delay_nobody_is_not_told_so_and_how_many_are_ahead() -> None:
    """The heads wait for the H100 of node a, job 5 for an A100 of node b."""
    heads = [
        job(4, "1x4", waited=900, model="H100"),
        job(6, "1x4", waited=800, model="H100", tier=Tier.URGENT),
    ]
    cluster = "a 1...", "b 2222 model=A100"
    mine = job(5, waited=1, model="A100", limit_s=9999)
    checks = blocked(draw(*cluster, jobs=[*heads, mine])).checks
    failing = {one.reason for one in checks if not one.is_ok}
    behind = {WaitReason.BACKFILL_WOULD_DELAY_HEAD, WaitReason.BEHIND_HIGHER_PRIORITY}
    assert WaitReason.CAPACITY_BUSY in failing and not failing & behind
    mine = replace(mine, model="")
    found = {one.reason: one for one in blocked(draw(*cluster, jobs=[*heads, mine])).checks}
    turn = found[WaitReason.BEHIND_HIGHER_PRIORITY]
    assert not turn.is_ok and "2 jobs are ahead" in turn.sentence


def test_holders_are_named_with_their_ends_and_this_cycles_starts_are_among_them() -> None:
    jobs = [job(6, "1x1", waited=9, limit_s=7200), job(5, "1x4")]
    found = blocked(draw("a 112.", "b 33..  pool=other", jobs=jobs, ends={1: 600, 2: 100}))
    holders = [(one.job, one.gpus, one.until_s and one.until_s - NOW_S) for one in found.holders]
    assert holders == [(2, 1, 120), (1, 2, 600), (6, 1, 7200)]
    assert found.other_holders == 0


@settings(max_examples=30)
@given(snapshots(), st.integers(0, 20))
def test_the_first_failing_check_is_the_top_reason_and_options_hold(
    snapshot: Snapshot, pick: int
) -> None:
    waits = list(plan_cycle(snapshot).iter_waits())
    if not waits:
        return
    wait = waits[pick % len(waits)]
    found = blocked(snapshot, wait.job)
    assert [one.reason for one in found.checks if not one.is_ok][:1] == [wait.reason]
    answer = what_if(snapshot, DEFAULT_POLICY, wait.job)
    assert answer is not None
    row = int(np.flatnonzero(snapshot.waiting.id == wait.job)[0])
    rows = (shorter(snapshot, row), *smaller(snapshot, row), other_changes(snapshot, row, ()))
    edits = {edit.words: edit for each in rows for edit in each}
    for edit in edits.values():
        # They are tried on a cluster that was looked at before.
        check_snapshot(_changed(snapshot, row, edit))
    for option in answer.options:
        plan = plan_cycle(_changed(snapshot, row, edits[option.words]))
        starts = wait.job in {start.job for start in plan.starts}
        assert starts == option.starts_now


@settings(max_examples=30)
@given(snapshots(), st.integers(0, 20))
def test_lines_that_are_the_same_again_are_laid_out_once(snapshot: Snapshot, place: int) -> None:
    """What is kept between trials changes no answer, nor does a plan that is known already."""
    ids = snapshot.waiting.id.tolist()
    if not ids:
        return
    asked = ids[place % len(ids)]
    kept = what_if(snapshot, DEFAULT_POLICY, asked, plan=plan_cycle(snapshot))
    with (
        patch.object(starts, "lay_out", lay_out.__wrapped__),
        patch.object(LineUps, "line_up", lambda _, shares, *columns: shares.line_up(*columns)),
    ):
        assert kept == what_if(snapshot, DEFAULT_POLICY, asked)


def test_the_question_leaves_the_snapshot_as_it_is() -> None:
    snapshot = draw("a 1122", jobs=[job(5, "1x4"), job(6)])
    before = replace(snapshot.waiting, id=snapshot.waiting.id.copy())
    what_if(snapshot, DEFAULT_POLICY, 5)
    columns = zip(_columns(before), _columns(snapshot.waiting), strict=True)
    assert all((old == new).all() for old, new in columns)


def _columns(table) -> list:
    return [getattr(table, name) for name in table.__slots__]


def test_racks_licences_and_other_tenants_are_measured_too() -> None:
    lines = ["a ..", "b 11", "c .. ..", "d 22"]
    snapshot = licensed(
        in_racks(draw(*lines, jobs=[job(5, "2x2")]), "aabb"),
        {"sim": 3},
        {5: {"sim": 2}},
        used=[(1, "sim", 2, 60)],
    )
    found = blocked(shaped(snapshot, near={5: "rack required"}))
    failing = {one.reason: (one.need, one.have) for one in found.checks if not one.is_ok}
    where = "with room in one rack"
    assert failing == {
        WaitReason.TOPOLOGY_FRAGMENTED: (f"2 nodes {where}", f"1 node {where}"),
        WaitReason.LICENCE_WAIT: ("2 sim", "1 of 3 free"),
    }
    cut = shaped(
        draw("a 9...", jobs=[job(5, "1x2")]),
        jobs={"tenant": {5: 1}},
        held={"tenant": {9: 0}},
        devices={"card": [0] * 4},
    )
    failing = {one.reason: (one.need, one.have) for one in blocked(cut).checks if not one.is_ok}
    need = "free GPUs on cards its team may use"
    assert failing == {WaitReason.ISOLATION_CONFLICT: (need, "0 of 3")}
