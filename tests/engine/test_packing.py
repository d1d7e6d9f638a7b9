"""Parts of GPUs, requests without any, several models, and where each rule puts them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.board import Board
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.packing.fragmentation import Fragmentation
from scheduler.engine.packing.levels import Levels
from scheduler.engine.packing.mix import typical_mix
from scheduler.engine.packing.potential import SLACK, TIGHT, Potential
from scheduler.engine.policy import PlacementRule, Policy
from scheduler.engine.snapshot import Ints, Snapshot, SnapshotInvalid, ints
from scheduler.states import WaitReason, wait_sentence
from tests.builders import draw, job
from tests.engine.sharing import after, shared, spots

RULES = list(PlacementRule)
PATIENT = {rule: Policy(head_patience_s=float("inf"), placement=rule) for rule in RULES}


@pytest.mark.parametrize("rule", RULES)
def test_shares_fill_one_device_before_the_next(rule: PlacementRule) -> None:
    snapshot = shared(
        draw("a ..", jobs=[job(5), job(6), job(7), job(8, waited=-1)]),
        milli={5: 500, 6: 500, 7: 300},
        demand=[(1, 500, 1, 8), (1, 300, 1, 2), (1, 1000, 1, 2)],
    )
    plan = plan_cycle(snapshot, PATIENT[rule])
    assert {number: spot[0][1] for number, spot in spots(plan).items()} == {
        5: (0,),
        6: (0,),
        7: (1,),
    }
    assert [wait.job for wait in plan.iter_waits()] == [8]
    assert [p.gpu_milli for start in plan.starts for p in start.placements] == [500, 500, 300]


@pytest.mark.parametrize("rule", RULES)
def test_only_shareable_devices_are_shared(rule: PlacementRule) -> None:
    snapshot = draw("a ..", jobs=[job(5)])
    snapshot = replace(snapshot, waiting=replace(snapshot.waiting, gpu_milli=ints([300])))
    plan = plan_cycle(snapshot, PATIENT[rule])
    (wait,) = plan.iter_waits()
    assert wait.reason is WaitReason.INFEASIBLE_EVER
    assert wait_sentence(wait.reason, wait.facts).endswith(
        "needs 0.3 GPU, the largest node has no GPU that may be shared."
    )


def test_tight_takes_the_device_with_the_least_left_over() -> None:
    snapshot = shared(
        draw("a ..", "b .1", jobs=[job(5)]),
        milli={5: 250},
        slices=[(2, 0, 400), (3, 1, 700), (4, 2, 600)],
    )
    assert spots(plan_cycle(snapshot)) == {5: [(0, (1,))]}


@pytest.mark.parametrize("rule", [PlacementRule.TIGHT, PlacementRule.PACK])
def test_a_request_without_gpus_leaves_them_alone(rule: PlacementRule) -> None:
    snapshot = shared(draw("a ....", "b 11", jobs=[job(5, "1x0", cpus=8)]))
    plan = plan_cycle(snapshot, PATIENT[rule])
    assert spots(plan) == {5: [(1, ())]}
    assert plan.starts[0].placements[0].cpus == 8


def test_a_request_without_gpus_waits_for_cpus() -> None:
    plan = plan_cycle(
        shared(draw("a .. cpus=4", jobs=[job(5, "1x0", cpus=3), job(6, "1x0", cpus=2)]))
    )
    (wait,) = plan.iter_waits()
    assert (wait.job, wait.reason) == (6, WaitReason.CAPACITY_BUSY)
    assert wait_sentence(wait.reason, wait.facts).startswith("Needs 2 CPUs and 1 GiB;")


@pytest.mark.parametrize("rule", RULES)
def test_any_of_several_models(rule: PlacementRule) -> None:
    snapshot = shared(
        draw("a . model=T4", "b . model=A100", "c . model=H100", jobs=[job(n) for n in (5, 6, 7)]),
        models={5: "A100|H100", 6: "A100|H100", 7: "A100|H100"},
    )
    plan = plan_cycle(snapshot, PATIENT[rule])
    assert {spot[0][0] for spot in spots(plan).values()} == {1, 2}
    (wait,) = plan.iter_waits()
    assert wait.facts["need"] == "1 A100 or H100"


def test_a_share_waits_until_the_last_holder_of_a_device_ends() -> None:
    snapshot = shared(
        draw("a .", jobs=[job(5, waited=9000)]),
        milli={5: 700},
        slices=[(2, 0, 400), (3, 0, 300)],
        ends={2: 500, 3: 900},
    )
    (reservation,) = plan_cycle(snapshot).reservations
    assert reservation.start_s == snapshot.now_s + 900


def test_pack_puts_a_small_share_where_the_rest_is_worth_nothing() -> None:
    # 190 milli beside an 810 hold a 160 for nothing; the open device still fits another half.
    demand = [(1, 810, 1, 60), (1, 500, 1, 30), (1, 160, 1, 2)]
    snapshot = shared(
        draw("a ...", jobs=[job(5)]),
        milli={5: 160},
        slices=[(2, 0, 500), (3, 1, 810)],
        demand=demand,
    )
    assert spots(plan_cycle(snapshot, PATIENT[PlacementRule.PACK])) == {5: [(0, (1,))]}


def test_pack_keeps_models_that_constrained_requests_need() -> None:
    snapshot = shared(draw("a . model=H100", "b . model=T4", jobs=[job(5)]))
    demand = replace(
        snapshot.demand,
        gpus=ints([1, 1]),
        gpu_milli=ints([1000, 1000]),
        cpus=ints([1, 1]),
        model=ints([-1, snapshot.models.index("H100")]),
        count=ints([5, 5]),
    )
    plan = plan_cycle(replace(snapshot, demand=demand), PATIENT[PlacementRule.PACK])
    assert spots(plan) == {5: [(1, (1,))]}


def test_the_branch_follows_which_of_cpus_and_gpus_is_scarce() -> None:
    # Eight GPUs and 64 CPUs: 8 CPUs per GPU installed.
    for cpus, expected in ((2, SLACK), (7, SLACK), (8, TIGHT)):
        snapshot = shared(draw("a ........ cpus=64"), demand=[(1, 1000, cpus, 1)])
        board = Board(snapshot)
        assert Potential(Levels(board), typical_mix(snapshot)).weights is expected


def test_the_published_fragment_by_hand() -> None:
    # Half ask for 500 milli with 4 cpus, a quarter for two GPUs, a quarter for no GPU.
    snapshot = shared(
        draw("a .. cpus=8", "b ...."),
        demand=[(1, 500, 4, 2), (2, 1000, 4, 1), (0, 1000, 1, 1)],
    )
    fragmentation = Fragmentation(Levels(Board(snapshot)), typical_mix(snapshot))

    def fragment(milli: list[int], cpus: int) -> float:
        levels = np.where(np.array([milli]) > 0, 2 * 1001 + np.array([milli]), 0)
        return float(fragmentation.of(ints(levels).reshape(1, -1), ints([cpus]))[0])

    assert fragment([1000, 1000], 8) == (0 + 0 + 2000 / 4)
    assert fragment([1000, 400], 8) == 400 / 2 + 1400 / 4 + 1400 / 4
    assert fragment([1000, 1000], 3) == 2000


def test_typical_requests_are_the_popular_ones_and_else_what_waits() -> None:
    rows = [(1, 1000, 4, 60), (1, 500, 4, 20), (1, 500, 4, 16), (1, 250, 1, 4)]
    mix = typical_mix(shared(draw("a ."), demand=rows))
    assert (mix.gpu_milli.tolist(), mix.count.tolist()) == ([1000, 500], [60, 36])
    mix = typical_mix(draw("a .", jobs=[job(5, "3x2"), job(6, "1x0")]))
    assert (mix.gpus.tolist(), mix.count.tolist()) == ([2, 0], [3, 1])
    assert mix.weight.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"slices": [(2, 0, 1100)]}, "slices.milli"),
        ({"slices": [(2, 0, 600), (3, 0, 600)]}, "slices.milli"),
        ({"slices": [(2, 0, 0)]}, "slices.milli"),
        ({"slices": [(2, 1, 10)]}, "slices.device"),
        ({"milli": {5: 0}}, "waiting.gpu_milli"),
        ({"milli": {6: 500}}, "waiting.gpu_milli"),
        ({"demand": [(1, 2000, 1, 1)]}, "demand.gpu_milli"),
        ({"demand": [(1, 1000, 1, -1)]}, "demand.count"),
    ],
)
def test_shares_that_make_no_sense_are_refused_by_name(change, names: str) -> None:
    with pytest.raises(SnapshotInvalid, match=names):
        plan_cycle(shared(draw("a .1", jobs=[job(5), job(6, "1x2")]), **change))


def test_slices_of_whole_devices_and_unknown_models_are_refused() -> None:
    snapshot = shared(draw("a ..", jobs=[job(5)]), slices=[(2, 0, 500)])
    whole = replace(snapshot.devices, is_shareable=np.zeros(2, dtype=np.bool_))
    with pytest.raises(SnapshotInvalid, match=r"slices\.device"):
        plan_cycle(replace(snapshot, devices=whole))
    with pytest.raises(SnapshotInvalid, match="model_sets row 0"):
        plan_cycle(replace(snapshot, model_sets=((7,),)))
    with pytest.raises(SnapshotInvalid, match=r"waiting\.model"):
        plan_cycle(replace(snapshot, waiting=replace(snapshot.waiting, model=ints([1]))))


@st.composite
def clusters(drawing: st.DrawFn) -> Snapshot:
    """Shared and whole devices of two models, partly taken, with every kind of request waiting."""
    lines = [
        f"n{number} {drawing(st.sampled_from(['..', '....', '.1..', 'x.']))} "
        f"{drawing(st.sampled_from(['', '.2']))} cpus={drawing(st.sampled_from([4, 16]))} "
        f"model={drawing(st.sampled_from(['H100', 'T4']))} pool={drawing(st.sampled_from('ab'))}"
        for number in range(drawing(st.integers(1, 5)))
    ]
    jobs = [
        job(
            number + 100,
            f"{drawing(st.sampled_from([1, 1, 1, 2]))}x{drawing(st.sampled_from([0, 1, 1, 1, 2]))}",
            waited=drawing(st.sampled_from([0, 5, 700, 900])),
            cpus=drawing(st.sampled_from([0, 1, 4])),
            limit_s=drawing(st.sampled_from([60, 600, 7200])),
            model=drawing(st.sampled_from(["", "", "H100", "T4"])),
            pool=drawing(st.sampled_from("ab")),
        )
        for number in range(drawing(st.integers(0, 14)))
    ]
    drawn = draw(*lines, jobs=jobs)
    sizes = st.sampled_from([100, 250, 300, 500, 810, 1000])
    free = np.flatnonzero((drawn.devices.holder == -1) & drawn.devices.is_healthy).tolist()
    taken = [row for row in free if drawing(st.integers(0, 3)) == 0]
    return shared(
        drawn,
        milli={one.id: drawing(sizes) for one in jobs if one.gpus == 1},
        models={one.id: "T4" for one in jobs if one.model == "T4" and "T4" in drawn.models},
        slices=[(3, row, drawing(sizes.filter(lambda size: size < 1000))) for row in taken],
        demand=[(1, 300, 1, 3), (1, 1000, 2, 2), (2, 1000, 2, 1), (0, 1000, 4, 1)]
        if drawing(st.booleans())
        else (),
    )


def _free_milli(snapshot: Snapshot) -> Ints:
    return snapshot.devices.free_milli(snapshot.slices)


@given(clusters(), st.sampled_from(RULES))
def test_no_device_is_given_out_twice_and_gangs_are_whole(
    snapshot: Snapshot, rule: PlacementRule
) -> None:
    waiting, devices, nodes = snapshot.waiting, snapshot.devices, snapshot.nodes
    plan = plan_cycle(snapshot, Policy(placement=rule))
    free = _free_milli(snapshot)
    cpus = nodes.cpus_free.copy()
    for start in plan.starts:
        row = int(np.flatnonzero(waiting.id == start.job)[0])
        assert len({p.node for p in start.placements}) == waiting.nodes[row]
        for placement in start.placements:
            taken = np.flatnonzero(np.isin(devices.id, placement.devices))
            assert len(taken) == waiting.gpus_per_node[row]
            assert placement.gpu_milli == waiting.gpu_milli[row]
            assert devices.is_healthy[taken].all()
            assert snapshot.accepts()[waiting.model[row], devices.model[taken]].all()
            assert (nodes.id[devices.node[taken]] == placement.node).all()
            free[taken] -= placement.gpu_milli
            cpus[nodes.id == placement.node] -= placement.cpus
    assert (free >= 0).all() and (cpus >= 0).all()
    answered = [start.job for start in plan.starts] + [wait.job for wait in plan.iter_waits()]
    assert sorted(answered) == sorted(waiting.id.tolist())
    for wait in plan.iter_waits():
        assert "?" not in wait_sentence(wait.reason, wait.facts)


@given(clusters(), st.sampled_from(RULES), st.randoms(use_true_random=False))
def test_same_snapshot_same_plan(snapshot: Snapshot, rule: PlacementRule, random) -> None:
    policy = Policy(placement=rule)
    expected = plan_cycle(snapshot, policy)
    rows = list(range(len(snapshot.waiting)))
    random.shuffle(rows)
    again = plan_cycle(snapshot.only(ints(rows)), policy)
    assert again.starts == expected.starts == plan_cycle(snapshot, policy).starts
    assert again.reservations == expected.reservations


@given(clusters(), st.sampled_from(RULES))
def test_a_plan_leaves_nothing_to_do(snapshot: Snapshot, rule: PlacementRule) -> None:
    """Heads aside: a kept shared card counts as held until its last holder ends, and the next
    cycle knows other last holders, so that a job may pass a head then that could not before.
    """
    policy = PATIENT[rule]
    assert plan_cycle(after(snapshot, plan_cycle(snapshot, policy)), policy).starts == ()


@given(clusters(), st.sampled_from([PlacementRule.PACK, PlacementRule.FGD]))
def test_one_cycle_equals_one_cycle_per_job(snapshot: Snapshot, rule: PlacementRule) -> None:
    """What `bench packing` relies on: nothing ends, nobody is waited for, demand is given."""
    if not len(snapshot.demand.count):
        return
    waiting = snapshot.waiting
    one_by_one: dict[int, object] = {}
    rest = snapshot
    for row in np.lexsort((waiting.id, waiting.queued_at_s, -waiting.tier)).tolist():
        alone = replace(rest, waiting=snapshot.only(ints([row])).waiting)
        plan = plan_cycle(alone, PATIENT[rule])
        one_by_one |= spots(plan)
        rest = after(alone, plan)
    assert spots(plan_cycle(snapshot, PATIENT[rule])) == one_by_one
