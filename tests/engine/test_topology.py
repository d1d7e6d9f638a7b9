"""Racks and blocks: what a gang's nodes have in common."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.shaping.topology import BALANCED, PREFERRED, REQUIRED, split_gang
from scheduler.engine.snapshot import ints
from scheduler.states import WaitReason, wait_sentence
from tests.builders import draw, job, picture
from tests.engine.shaping import in_racks, shaped


def racks_of(counts, need, spread):
    taken = split_gang(ints(counts), need, spread)
    return None if taken is None else taken.tolist()


@pytest.mark.parametrize(
    ("counts", "need", "spread", "expected"),
    [
        ([4, 3, 2], 2, REQUIRED, [0, 0, 2]),
        ([4, 3, 2], 3, REQUIRED, [0, 3, 0]),
        ([4, 3, 2], 5, REQUIRED, None),
        ([], 1, REQUIRED, None),
        ([4, 3, 2], 3, PREFERRED, [0, 3, 0]),
        ([4, 3, 2], 6, PREFERRED, [4, 0, 2]),
        ([4, 3, 2], 9, PREFERRED, [4, 3, 2]),
        ([4, 3, 2], 10, PREFERRED, None),
        ([4, 3, 2], 4, BALANCED, [4, 0, 0]),
        ([4, 3, 2], 5, BALANCED, [0, 3, 2]),
        ([4, 3, 2], 6, BALANCED, [3, 3, 0]),
        ([4, 3, 2], 8, BALANCED, [3, 3, 2]),
        ([5, 1], 6, BALANCED, None),
        ([5, 1, 1], 3, BALANCED, [3, 0, 0]),
    ],
)
def test_a_gang_goes_to_the_tightest_groups_that_hold_it(counts, need, spread, expected):
    assert racks_of(counts, need, spread) == expected


_counts = st.lists(st.integers(0, 6), min_size=1, max_size=5)


@given(_counts, st.integers(1, 15))
def test_equal_parts_are_found_whenever_there_are_any(counts, need):
    def fits(groups: int) -> bool:
        part, larger = divmod(need, groups)
        sizes = [part + 1] * larger + [part] * (groups - larger)
        fullest = sorted(counts, reverse=True)[:groups]
        return part > 0 and all(a <= b for a, b in zip(sizes, fullest, strict=True))

    possible = [groups for groups in range(1, len(counts) + 1) if fits(groups)]
    taken = racks_of(counts, need, BALANCED)
    assert (taken is not None) == bool(possible)
    if taken is not None:
        parts = [n for n in taken if n]
        assert sum(parts) == need and max(parts) - min(parts) <= 1
        assert all(n <= room for n, room in zip(taken, counts, strict=True))
        assert len(parts) == possible[0]


@given(_counts, st.integers(1, 15))
def test_as_few_groups_as_possible_are_preferred(counts, need):
    taken = racks_of(counts, need, PREFERRED)
    assert (taken is not None) == (sum(counts) >= need)
    if taken is not None:
        used = sum(n > 0 for n in taken)
        so_far = np.cumsum(sorted(counts, reverse=True))
        assert sum(taken) == need
        assert used == int(np.argmax(so_far >= need)) + 1


CLUSTER = ["a1 ..", "a2 ..", "a3 ..", "b1 ..", "b2 ..", "c1 ..", "c2 9."]


def test_required_keeps_a_gang_in_one_rack_the_tightest():
    snapshot = shaped(
        in_racks(draw(*CLUSTER, jobs=[job(1, "2x2")]), "aaabbcc"), near={1: "rack required"}
    )
    assert picture(snapshot, plan_cycle(snapshot)) == ["..", "..", "..", "11", "11", "..", "9."]


def test_no_rack_holds_it_and_the_reason_names_the_level_and_the_best_count():
    lines = ["a1 ..", "a2 ..", "a3 9.", "b1 ..", "b2 .."]
    snapshot = shaped(
        in_racks(draw(*lines, jobs=[job(1, "3x2")]), "aaabb"), near={1: "rack required"}
    )
    (wait,) = plan_cycle(snapshot).iter_waits()
    assert wait.reason is WaitReason.TOPOLOGY_FRAGMENTED
    assert (wait.facts["level"], wait.facts["best_nodes"]) == ("rack", 2)
    assert wait_sentence(wait.reason, wait.facts) == (
        "Needs 3 nodes × 2 GPUs in one rack; 9 GPUs in pool default are free, but not together: "
        "nodes with room for it now: 2 in one rack."
    )


def test_a_rack_that_is_too_small_is_never_enough():
    snapshot = shaped(
        in_racks(draw(*CLUSTER, jobs=[job(1, "4x1")]), "aaabbcc"), near={1: "rack required"}
    )
    (wait,) = plan_cycle(snapshot).iter_waits()
    assert wait.reason is WaitReason.INFEASIBLE_EVER


def test_nodes_of_unknown_place_serve_only_who_does_not_insist():
    drawn = draw("a1 ..", "x1 ..", "x2 ..", jobs=[job(1, "2x2")])
    insists = shaped(in_racks(drawn, "a--"), near={1: "rack required"})
    assert plan_cycle(insists).starts == ()
    prefers = shaped(in_racks(drawn, "a--"), near={1: "rack preferred"})
    assert picture(prefers, plan_cycle(prefers)) == ["11", "11", ".."]


def test_preferred_racks_lie_in_one_block_if_one_holds_the_gang():
    lines = [f"{name} .." for name in ("a1", "a2", "b1", "c1", "c2", "d1", "d2")]
    drawn = draw(*lines, jobs=[job(1, "4x2")])
    snapshot = shaped(in_racks(drawn, "aabccdd", "aaabbbb"), near={1: "rack preferred"})
    # Racks a and c alone hold it as well, but lie in two blocks.
    assert picture(snapshot, plan_cycle(snapshot)) == ["..", "..", "..", "11", "11", "11", "11"]


def test_balanced_takes_equal_parts_of_two_racks():
    lines = ["a1 ..", "a2 ..", "a3 ..", "b1 ..", "b2 .."]
    snapshot = shaped(
        in_racks(draw(*lines, jobs=[job(1, "4x2")]), "aaabb"), near={1: "rack balanced"}
    )
    assert picture(snapshot, plan_cycle(snapshot)) == ["11", "11", "..", "11", "11"]


def test_a_head_keeps_the_rack_that_is_ready_first():
    lines = ["a1 1.", "a2 ..", "b1 2.", "b2 .."]
    jobs = [job(5, "2x2", waited=900), job(6, "1x1", limit_s=9000)]
    snapshot = shaped(
        in_racks(draw(*lines, jobs=jobs, ends={1: 900, 2: 300}), "aabb"),
        near={5: "rack required"},
    )
    plan = plan_cycle(snapshot)
    assert plan.reservations[0].nodes == (103, 104)
    assert plan.reservations[0].start_s == snapshot.now_s + 300
    assert picture(snapshot, plan) == ["16", "..", "2.", ".."]


def test_the_smaller_share_needs_no_node_that_holds_a_whole_one() -> None:
    """Two nodes hold the whole shares, a third of their rack just the smaller one."""
    drawn = draw("a ....", "b ....", "c 111.", "d ....", jobs=[job(5, "2x4+1")])
    snapshot = shaped(in_racks(drawn, "aaab"), near={5: "rack required"})
    (start,) = plan_cycle(snapshot).starts
    assert [placed.node for placed in start.placements] == [101, 102, 103]


def test_the_smaller_share_of_a_balanced_gang_may_go_to_any_rack() -> None:
    drawn = draw("a ..", "b ..", "c ..", "d .1", jobs=[job(5, "3x2+1")])
    snapshot = shaped(in_racks(drawn, "aaab"), near={5: "rack balanced"})
    (start,) = plan_cycle(snapshot).starts
    assert [placed.node for placed in start.placements] == [101, 102, 103, 104]
