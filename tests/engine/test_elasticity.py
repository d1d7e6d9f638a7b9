"""Elastic jobs start with as many nodes as they can have; soft wishes order the nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import PlacementRule, Policy
from scheduler.engine.snapshot import flags, ints
from scheduler.states import WaitReason, wait_sentence
from tests.builders import draw, job, picture
from tests.engine.shaping import in_racks, shaped

FOUR = ["a ..", "b ..", "c ..", "d 9."]


def elastic(snapshot, least: int, sizes: tuple[int, ...] = ()):
    cells = {"nodes_min": {1: least}}
    if sizes:
        return shaped(snapshot, jobs={**cells, "sizes": {1: 0}}, size_sets=(sizes,))
    return shaped(snapshot, jobs=cells)


def test_it_starts_with_all_nodes_that_fit_up_to_its_most():
    snapshot = elastic(draw(*FOUR, jobs=[job(1, "4x2")]), 2)
    assert picture(snapshot, plan_cycle(snapshot)) == ["11", "11", "11", "9."]
    snapshot = elastic(draw(*FOUR, jobs=[job(1, "2x2")]), 1)
    assert picture(snapshot, plan_cycle(snapshot)) == ["11", "11", "..", "9."]


def test_only_allowed_sizes_are_taken():
    snapshot = elastic(draw(*FOUR, jobs=[job(1, "4x2")]), 1, (1, 2, 4))
    assert picture(snapshot, plan_cycle(snapshot)) == ["11", "11", "..", "9."]


def test_below_its_least_it_waits_and_says_its_range():
    snapshot = elastic(draw("a ..", "b ..", "c 8.", "d 9.", jobs=[job(1, "4x2")]), 3)
    (wait,) = plan_cycle(snapshot).iter_waits()
    assert wait.reason is WaitReason.TOPOLOGY_FRAGMENTED
    assert "3 to 4 nodes × 2 GPUs" in wait_sentence(wait.reason, wait.facts)


def test_a_pool_smaller_than_its_least_can_never_hold_it():
    snapshot = elastic(draw(*FOUR, jobs=[job(1, "9x2")]), 5)
    (wait,) = plan_cycle(snapshot).iter_waits()
    assert wait.reason is WaitReason.INFEASIBLE_EVER


def test_it_starts_smaller_rather_than_delay_a_head():
    lines = ["a ..", "b ..", "c 8."]
    jobs = [job(5, "2x2", waited=900), job(1, "3x1", limit_s=9000)]
    snapshot = elastic(draw(*lines, "d 9.", jobs=jobs, ends={8: 60, 9: 9000}), 1)
    snapshot = shaped(
        snapshot, jobs={"mask": {5: 0}}, node_masks=flags([[1, 0, 1, 0]]).reshape(1, 4)
    )
    plan = plan_cycle(snapshot)
    assert set(plan.reservations[0].nodes) == {101, 103}
    assert picture(snapshot, plan) == ["..", "1.", "8.", "91"]


def test_within_one_rack_it_takes_the_largest_gang_a_rack_holds():
    snapshot = in_racks(elastic(draw(*FOUR, "e ..", jobs=[job(1, "4x2")]), 1), "aabbb")
    snapshot = shaped(snapshot, near={1: "rack required"})
    # Each rack holds two; of equals the first.
    assert picture(snapshot, plan_cycle(snapshot)) == ["11", "11", "..", "9.", ".."]


def prefer(snapshot, wishes: tuple[str, ...]):
    """Job 1 takes these models, the first best."""
    models = tuple(snapshot.models.index(name) for name in wishes)
    cells = {"model": {1: len(snapshot.models)}, "prefers": {1: True}}
    return shaped(snapshot, jobs=cells, model_sets=(models,))


def test_preferred_models_come_first():
    lines = ["a .. model=A100", "b .. model=H100", "c 9. model=H100"]
    snapshot = prefer(draw(*lines, jobs=[job(1, "1x1")]), ("H100", "A100"))
    assert picture(snapshot, plan_cycle(snapshot)) == ["..", "..", "91"]
    snapshot = prefer(draw(*lines, jobs=[job(1, "1x1")]), ("A100", "H100"))
    assert picture(snapshot, plan_cycle(snapshot)) == ["1.", "..", "9."]
    packed = Policy(placement=PlacementRule.PACK)
    assert picture(snapshot, plan_cycle(snapshot, packed)) == ["1.", "..", "9."]


def test_within_a_node_the_preferred_model_is_picked_first():
    drawn = draw("a ....", "b 9 model=A100", jobs=[job(1, "1x2")])
    other = drawn.models.index("A100")
    snapshot = shaped(
        prefer(drawn, ("A100", "H100")),
        devices={"model": [1 - other, other, 1 - other, other, other]},
    )
    assert picture(snapshot, plan_cycle(snapshot)) == [".1.1", "9"]


def test_nodes_with_recent_failures_come_last():
    snapshot = shaped(
        draw("a 9.", "b ..", "c ..", jobs=[job(1, "1x1"), job(2, "1x1")]),
        nodes={"failures": [2, 1, 0]},
    )
    assert picture(snapshot, plan_cycle(snapshot)) == ["9.", "..", "12"]


@pytest.mark.parametrize("rule", PlacementRule)
def test_the_node_with_its_data_wins_among_equals(rule):
    drawn = draw("a ..", "b ..", "c 9.", jobs=[job(1, "1x2")])
    snapshot = shaped(
        drawn, jobs={"dataset": {1: 0}}, missing_mib=ints([900, 100, 0]).reshape(1, 3)
    )
    plan = plan_cycle(snapshot, Policy(placement=rule))
    assert picture(snapshot, plan) == ["..", "11", "9."]
    assert plan.starts[0].why_here == {
        "node": 102,
        "missing_mib": 100,
        "instead_of": 101,
        "more_missing_mib": 900,
    }
    one_left = replace(snapshot, missing_mib=ints([0, 100, 900]).reshape(1, 3))
    assert not plan_cycle(one_left, Policy(placement=rule)).starts[0].why_here
