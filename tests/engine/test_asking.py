"""All that blocks a job and what would help it, each verified by the engine itself."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.asking import Blocking, blocking_facts, what_if
from scheduler.engine.asking.counterfactual import _changed
from scheduler.engine.asking.edits import MOST_POOLS, other_changes, shorter, smaller
from scheduler.engine.checks import check_snapshot
from scheduler.engine.cycle import decide, plan_cycle
from scheduler.engine.forecasting import starts
from scheduler.engine.forecasting.laying import lay_out
from scheduler.engine.policy import DEFAULT_POLICY
from scheduler.engine.sharing.fairshare import LineUps
from scheduler.engine.snapshot import Snapshot, flags
from scheduler.states import Tier, WaitReason
from tests.builders import NOW_S, draw, job
from tests.engine.owners import limit, shared_by
from tests.engine.shaping import in_racks, licensed, shaped
from tests.engine.test_properties import snapshots


def blocked(snapshot: Snapshot, job_id: int = 5) -> Blocking:
    found = blocking_facts(decide(snapshot), DEFAULT_POLICY, job_id)
    assert found is not None
    return found


def options(snapshot: Snapshot, job_id: int = 5, **more) -> dict[str, tuple[str, float]]:
    """By kind: the words, and the minutes until it would start."""
    answer = what_if(snapshot, DEFAULT_POLICY, job_id, **more)
    assert answer is not None
    found = answer.options
    return {one.kind: (one.words, (one.start_s - NOW_S) / 60) for one in found}


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


def test_a_shorter_limit_lets_it_pass_before_the_head() -> None:
    head = job(4, "2x4", waited=700)
    snapshot = draw("a ....", "b 11..", jobs=[head, job(5, "1x2", limit_s=86_400)], ends={1: 9000})
    assert options(snapshot)["limit"] == ("with 2 h instead of 24 h", 0)
    assert options(snapshot, least_limit_s=7200)["limit"] == ("with 2 h instead of 24 h", 0)
    assert "limit" not in options(snapshot, least_limit_s=7201)


def test_milder_changes_are_tried_where_the_strongest_helps() -> None:
    """Nobody knows an end, all end at once, half end soon: of a limit and of four GPUs."""

    def tried(cluster: str, ends: dict[int, int]) -> tuple[int, list[str]]:
        snapshot = draw(cluster, jobs=[job(5, "1x4", limit_s=86_400)], ends=ends)
        answer = what_if(snapshot, DEFAULT_POLICY, 5)
        assert answer is not None
        return answer.tried, [one.words for one in answer.options]

    assert tried("a 1111", {}) == (3, [])
    assert tried("a 1111", {1: 9000}) == (3, [])
    assert tried("a 1122", {1: 9000, 2: 600}) == (4, ["with 2 GPUs instead of 4"])


def test_other_models_pools_and_shapes_are_tried() -> None:
    lines = ("a 1111 model=H100", "b .... model=A100", "c .... pool=other model=H100")
    found = options(
        draw(*lines, jobs=[job(5, "1x4", model="H100")], ends={1: 600}), elsewhere=[(1, 0)]
    )
    assert found["model"] == ("with A100 instead of H100", 0)
    assert found["pool"] == ("in pool other instead of default", 0)
    assert set(found) == {"model", "pool"}


def test_another_pool_is_tried_with_its_own_model() -> None:
    """Pools mostly have one model each."""
    lines = ("a 1111 model=H100", "c .... pool=other model=A100", "d . pool=other model=L4")
    asks = [job(5, "1x4", model="H100", limit_s=900)]
    found = options(draw(*lines, jobs=asks, ends={1: 90_000}), elsewhere=[(1, 0)])
    assert found == {"pool": ("with A100 instead of H100, in pool other instead of default", 0)}


def test_of_many_pools_those_with_most_room_for_it_are_tried() -> None:
    """Each is a whole cycle: a hundred of them would take seconds."""
    lines = [
        "a 11",
        "b 22 pool=b",
        "c 33 pool=c",
        "d .. pool=d silent",
        "e .. pool=e",
        "f 4. pool=f",
    ]
    lines += [f"{name} {mark}. pool={name}" for name, mark in ("g6", "h7")]
    snapshot = draw(*lines, jobs=[job(5, "1x2", limit_s=900)], ends=dict.fromkeys(range(8), 9e5))
    default = snapshot.pools.index("default")
    elsewhere = [(row, 0) for row in range(len(snapshot.pools)) if row != default]
    assert len(elsewhere) > MOST_POOLS
    row = int(np.flatnonzero(snapshot.waiting.id == 5)[0])
    tried = [edit for edit in other_changes(snapshot, row, elsewhere) if edit.kind == "pool"]
    pools = [snapshot.pools[int(edit.columns["pool"])] for edit in tried]
    # Free at once, then in order; of those alike the first.
    assert pools == ["b", "c", "e"]
    assert options(snapshot, elsewhere=elsewhere)["pool"] == ("in pool e instead of default", 0)
    few = elsewhere[-MOST_POOLS:]
    tried = [edit for edit in other_changes(snapshot, row, few) if edit.kind == "pool"]
    assert [edit.columns["pool"] for edit in tried] == [pool for pool, _ in few]


def test_firm_wishes_for_nodes_are_tried_without() -> None:
    """Two racks with a node of each free; a node that somebody is on; a label that nodes lack."""
    racks = in_racks(draw("a ..", "b 11", "c ..", "d 22", jobs=[job(5, "2x2")]), "aabb")
    firm = options(shaped(racks, near={5: "rack required"}))
    assert firm["place"] == ("with one rack preferred instead of required", 0)
    alone = draw("a 1...", jobs=[job(5, "1x2")], ends={1: 90_000})
    found = options(shaped(alone, jobs={"is_exclusive": {5: True}}))
    assert found["alone"] == ("with others on its nodes", 0)
    labels = draw("a 11", "b ..", jobs=[job(5, "1x2")], ends={1: 90_000})
    masks = {"node_masks": flags([True, False]).reshape(1, 2), "mask_names": ("network=ib",)}
    found = options(shaped(labels, jobs={"mask": {5: 0}}, **masks))
    assert found["labels"] == ("without asking for network=ib", 0)


def test_fewer_nodes_or_gpus_and_the_mildest_comes_first() -> None:
    found = options(draw("a ....", "b 11..", jobs=[job(5, "2x4")], ends={1: 600}))
    assert found["gpus"] == ("with 2 GPUs instead of 4 on each node", 0)
    assert found["nodes"] == ("on 1 node instead of 2", 0)


def test_a_change_that_only_brings_it_forward_says_by_how_much() -> None:
    snapshot = draw("a 1122", jobs=[job(5, "1x4")], ends={1: 600, 2: 7200})
    assert options(snapshot) == {"gpus": ("with 2 GPUs instead of 4", 10)}


def test_nothing_is_offered_to_a_job_that_starts_or_does_not_wait() -> None:
    snapshot = draw("a ....", jobs=[job(5)])
    answer = what_if(snapshot, DEFAULT_POLICY, 5)
    assert answer is not None
    assert (answer.starts_now, answer.options) == (True, ())
    assert what_if(snapshot, DEFAULT_POLICY, 6) is None
    assert blocking_facts(decide(snapshot), DEFAULT_POLICY, 6) is None


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
