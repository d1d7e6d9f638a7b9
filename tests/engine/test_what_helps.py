"""What would help a waiting job: which changes are tried, and what is said of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.asking import blocking_facts, what_if
from scheduler.engine.asking.counterfactual import _changed, _is_sooner, _start_s
from scheduler.engine.asking.edits import MOST_POOLS, other_changes, smaller
from scheduler.engine.cycle import decide, plan_cycle
from scheduler.engine.policy import DEFAULT_POLICY
from scheduler.engine.snapshot import Snapshot, flags
from tests.builders import NOW_S, draw, job
from tests.engine.shaping import in_racks, shaped
from tests.engine.test_properties import snapshots


def options(snapshot: Snapshot, job_id: int = 5, **more) -> dict[str, tuple[str, float]]:
    """By kind: the words, and the minutes until it would start."""
    answer = what_if(snapshot, DEFAULT_POLICY, job_id, **more)
    assert answer is not None
    found = answer.options
    return {one.kind: (one.words, (one.start_s - NOW_S) / 60) for one in found}


def test_a_shorter_limit_lets_it_pass_before_the_head() -> None:
    head = job(4, "2x4", waited=700)
    snapshot = draw("a ....", "b 11..", jobs=[head, job(5, "1x2", limit_s=86_400)], ends={1: 9000})
    assert options(snapshot)["limit"] == ("with 2 h instead of 24 h", 0)
    assert options(snapshot, least_limit_s=7200)["limit"] == ("with 2 h instead of 24 h", 0)
    assert "limit" not in options(snapshot, least_limit_s=7201)


def test_milder_changes_are_tried_where_the_strongest_helps() -> None:
    """Of a limit and of four GPUs: nobody knows an end, all end at once, half end soon, a
    single one is free, and each ends at another time."""

    def tried(cluster: str, ends: dict[int, int]) -> tuple[int, list[str]]:
        snapshot = draw(cluster, jobs=[job(5, "1x4", limit_s=86_400)], ends=ends)
        answer = what_if(snapshot, DEFAULT_POLICY, 5)
        assert answer is not None
        return answer.tried, [one.words for one in answer.options]

    assert tried("a 1111", {}) == (3, [])
    assert tried("a 1111", {1: 9000}) == (3, [])
    assert tried("a 1122", {1: 9000, 2: 600}) == (4, ["with 2 GPUs instead of 4"])
    assert tried("a 111.", {1: 9000}) == (4, ["with 1 GPU instead of 4"])
    assert tried("a 1233", {1: 600, 2: 3000, 3: 9000}) == (4, ["with 1 GPU instead of 4"])


@settings(max_examples=60, derandomize=True)
@given(snapshots(), st.integers(0, 20))
def test_no_smaller_shape_is_missed_for_what_is_taken_on_trust(
    snapshot: Snapshot, place: int
) -> None:
    """Equals trying each of them. Always of the same clusters: what is trusted has no proof."""
    ids, now_s = snapshot.waiting.id.tolist(), snapshot.now_s
    answer = what_if(snapshot, DEFAULT_POLICY, ids[place % len(ids)]) if ids else None
    if answer is None or answer.starts_now:
        return
    row, found = place % len(ids), {one.kind: one.words for one in answer.options}
    for edits in smaller(snapshot, row):
        plans = [plan_cycle(_changed(snapshot, row, edit)) for edit in edits]
        starts_s = [_start_s(plan, ids[row], now_s) for plan in plans]
        if not edits:
            continue
        # The first of those that are equally soon.
        soonest_s, best = min(zip(starts_s, edits, strict=True), key=lambda one: one[0])
        helps = _is_sooner(soonest_s, answer.start_s or np.inf, now_s)
        assert found.get(best.kind) == (best.words if helps else None)


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
