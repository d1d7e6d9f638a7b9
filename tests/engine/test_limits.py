"""Hard limits of a job answer yes or no: pictures, one limit each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import SnapshotInvalid, flags
from scheduler.states import WaitReason, wait_sentence
from tests.builders import draw, job, picture
from tests.engine.shaping import licensed, mask, shaped
from tests.engine.sharing import shared, spots


def only_wait(plan):
    (wait,) = plan.iter_waits()
    return wait


def test_a_mask_keeps_a_job_off_nodes():
    snapshot = shaped(
        draw("a ..", "b ..", jobs=[job(1, "1x1"), job(2, "2x1")]),
        jobs={"mask": {1: 0, 2: 0}},
        node_masks=mask("x."),
        mask_names=("gen=5",),
    )
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["..", "1."]
    wait = only_wait(plan)
    assert wait.reason is WaitReason.INFEASIBLE_EVER
    assert "where gen=5" in wait_sentence(wait.reason, wait.facts)


def test_devices_need_the_memory_asked_for():
    snapshot = shaped(
        draw("a ....", "b ....", jobs=[job(1, "1x2"), job(2, "1x3")]),
        jobs={"gpu_memory_mib": {1: 80_000, 2: 80_000}},
        devices={"memory_mib": [40_000] * 4 + [40_000, 80_000, 40_000, 80_000]},
    )
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["....", ".1.1"]
    assert only_wait(plan).reason is WaitReason.INFEASIBLE_EVER


def test_a_part_of_a_gpu_goes_to_a_card_that_is_isolated_well_enough():
    snapshot = shaped(
        shared(draw("a ..", jobs=[job(1, "1x1")]), milli={1: 500}),
        jobs={"isolation": {1: 1}},
        devices={"isolation": [0, 1]},
    )
    assert spots(plan_cycle(snapshot)) == {1: [(0, (1,))]}


def test_scratch_is_taken_from_the_node():
    snapshot = shaped(
        draw("a ....", "b ....", jobs=[job(1, "1x1"), job(2, "1x1"), job(3, "1x1")]),
        jobs={"scratch_mib": {1: 600, 2: 600, 3: 600}},
        nodes={"scratch_total_mib": [1000, 1000], "scratch_free_mib": [1000, 700]},
    )
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["1...", "2..."]
    wait = only_wait(plan)
    assert wait.reason is WaitReason.TOPOLOGY_FRAGMENTED
    assert "600 MiB of scratch" in wait_sentence(wait.reason, wait.facts)


def test_a_head_waits_for_scratch_and_nobody_takes_what_it_needs():
    snapshot = shaped(
        draw(
            "a 1...",
            jobs=[job(2, "1x1", waited=900), job(3, "1x1", limit_s=9000), job(4, "1x1", limit_s=9)],
            ends={1: 300},
        ),
        jobs={"scratch_mib": {2: 900, 3: 200, 4: 100}},
        held={"scratch_mib": {1: 400}},
        nodes={"scratch_total_mib": [1000], "scratch_free_mib": [600]},
    )
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["14.."]
    assert plan.reservations[0].start_s == snapshot.now_s + 300


def test_an_exclusive_job_gets_an_empty_node_and_all_its_gpus():
    snapshot = shaped(
        draw("a 9...", "b ....", jobs=[job(1, "1x2"), job(2, "1x1"), job(3, "1x0", cpus=1)]),
        jobs={"is_exclusive": {1: True}},
    )
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["92..", "1111"]
    assert [start.placements[0].node for start in plan.starts] == [102, 101, 101]


def test_nobody_joins_an_exclusive_job_and_an_exclusive_one_waits_for_an_empty_node():
    snapshot = shaped(
        draw("a 9...", "b 8...", jobs=[job(1, "1x1"), job(2, "1x1", waited=900)], ends={8: 60}),
        jobs={"is_exclusive": {2: True}},
        held={"is_exclusive": {9: True}},
    )
    plan = plan_cycle(snapshot)
    assert plan.starts == ()
    assert plan.reservations[0].nodes == (102,)
    reasons = {wait.job: wait.reason for wait in plan.iter_waits()}
    assert reasons[2] is WaitReason.TOPOLOGY_FRAGMENTED
    assert reasons[1] is WaitReason.BACKFILL_WOULD_DELAY_HEAD


def test_tenants_share_a_card_only_if_both_opted_in():
    def starts(mine: bool, theirs: bool, tenant: int = 1) -> dict:
        snapshot = shaped(
            shared(draw("a .", jobs=[job(1, "1x1")]), milli={1: 500}, slices=[(9, 0, 500)]),
            jobs={"tenant": {1: tenant}, "shares_cards": {1: mine}},
            held={"tenant": {9: 0}, "shares_cards": {9: theirs}},
        )
        plan = plan_cycle(snapshot)
        if not plan.starts:
            wait = only_wait(plan)
            assert wait.reason is WaitReason.ISOLATION_CONFLICT
            assert "cards of other teams" in wait_sentence(wait.reason, wait.facts)
        return spots(plan)

    assert starts(True, True) == {1: [(0, (0,))]}
    assert starts(True, False) == starts(False, True) == starts(False, False) == {}
    assert starts(False, False, tenant=0) == {1: [(0, (0,))]}


def test_slots_of_one_card_count_as_one_card():
    snapshot = shaped(
        draw("a 9... ....", jobs=[job(1, "1x2"), job(2, "1x5")]),
        jobs={"tenant": {1: 1, 2: 1}},
        held={"tenant": {9: 0}},
        devices={"card": [0] * 4 + [1] * 4},
    )
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["9... 11.."]


def test_two_tenants_of_one_cycle_do_not_meet_on_a_card():
    snapshot = shaped(
        shared(
            draw("a ..", jobs=[job(1, "1x1"), job(2, "1x1"), job(3, "1x1")]),
            milli={1: 300, 2: 300, 3: 300},
        ),
        jobs={"tenant": {1: 0, 2: 1, 3: 0}},
    )
    assert spots(plan_cycle(snapshot)) == {1: [(0, (0,))], 2: [(0, (1,))], 3: [(0, (0,))]}


def test_licences_are_counted_and_the_reason_names_who_holds_them():
    snapshot = licensed(
        draw("a ....", jobs=[job(1, "1x1"), job(2, "1x1"), job(3, "1x1")]),
        {"sim": 3, "solver": 9},
        {1: {"sim": 1}, 2: {"sim": 2, "solver": 1}, 3: {"solver": 2}},
        used=[(9, "sim", 1, 120)],
    )
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["13.."]
    wait = only_wait(plan)
    assert wait.reason is WaitReason.LICENCE_WAIT
    facts = {name: wait.facts[name] for name in ("licence", "asked", "free", "total", "holders")}
    assert facts == {"licence": "sim", "asked": 2, "free": 1, "total": 3, "holders": [9]}
    assert wait_sentence(wait.reason, wait.facts) == (
        "Waits for licence sim: needs 2, 1 of 3 are free."
    )


def test_a_job_that_waited_long_enough_has_its_licences_kept():
    snapshot = licensed(
        draw(
            "a ....",
            "b ....   pool=other",
            jobs=[
                job(1, "1x1", waited=900),
                job(2, "1x1", limit_s=9000),
                job(3, "1x1", limit_s=30),
                job(4, "1x1", limit_s=9000, pool="other"),
            ],
        ),
        {"sim": 2},
        {1: {"sim": 2}, 2: {"sim": 1}, 3: {"sim": 1}, 4: {"sim": 1}},
        used=[(9, "sim", 1, 120)],
    )
    plan = plan_cycle(snapshot, Policy(head_patience_s=600))
    assert [start.job for start in plan.starts] == [3]
    assert plan.reservations[0].start_s == snapshot.now_s + 120
    reasons = {wait.job: wait.reason for wait in plan.iter_waits()}
    assert reasons == {
        1: WaitReason.LICENCE_WAIT,
        2: WaitReason.BACKFILL_WOULD_DELAY_HEAD,
        4: WaitReason.LICENCE_WAIT,
    }


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("nodes_min", 3),
        ("nodes_min", -1),
        ("sizes", 0),
        ("topology", 3),
        ("spread", -1),
        ("mask", 0),
        ("licences", 0),
        ("dataset", 0),
        ("isolation", 9),
        ("scratch_mib", -1),
        ("prefers", True),
    ],
)
def test_shapes_that_make_no_sense_are_blamed_on_their_job(column, value):
    snapshot = shaped(draw("a ..", jobs=[job(7), job(8)]), jobs={column: {8: value}})
    with pytest.raises(SnapshotInvalid) as caught:
        plan_cycle(snapshot)
    assert caught.value.jobs == (8,)
    assert column in caught.value.problem


def test_tables_that_make_no_sense_are_refused_by_name():
    snapshot = draw("a ..", jobs=[job(7)])
    for changed, name in (
        (replace(snapshot, node_masks=flags([True, True]).reshape(1, 2)), "node_masks"),
        (replace(snapshot, licences=("sim",)), "licence_total"),
        (replace(snapshot, size_sets=((),)), "size_sets"),
        (shaped(snapshot, nodes={"rack": [-2]}), "nodes.rack"),
    ):
        with pytest.raises(SnapshotInvalid, match=name):
            plan_cycle(changed)
