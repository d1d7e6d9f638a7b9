"""Who starts where: each test is a drawing before and after."""

from __future__ import annotations

import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Snapshot
from scheduler.states import Tier, WaitReason
from tests.builders import NOW_S, draw, job, picture


def after(snapshot: Snapshot) -> list[str]:
    return picture(snapshot, plan_cycle(snapshot))


def reasons(plan: Plan) -> dict[int, WaitReason]:
    return {wait.job: wait.reason for wait in plan.iter_waits()}


def test_a_job_takes_the_fullest_node_that_holds_it() -> None:
    assert after(draw("a ....", "b 1...", "c 11..", jobs=[job(5, "1x2")])) == [
        "....",
        "1...",
        "1155",
    ]


def test_a_whole_node_stays_whole_while_a_broken_one_has_room() -> None:
    # The small node would be left with fewer devices, but it is still whole.
    assert after(draw("a ..", "b 1.......", jobs=[job(5)])) == ["..", "15......"]


def test_devices_come_from_the_tightest_link_group_that_holds_them() -> None:
    assert after(draw("a .... 1...", jobs=[job(5, "1x3")])) == [".... 1555"]
    assert after(draw("a .... 11..", jobs=[job(5, "1x2")])) == [".... 1155"]
    assert after(draw("a .1.. 11..", jobs=[job(5, "1x5")])) == ["5155 1155"]


def test_a_share_that_stays_in_one_link_group_beats_a_tighter_fit() -> None:
    assert after(draw("a 1. .1", "b 1... ....", jobs=[job(5, "1x2")])) == ["1. .1", "155. ...."]


def test_a_share_larger_than_a_link_group_stays_within_one_of_the_wider_groups() -> None:
    """Groups of one NUMA node stand between bars."""
    assert after(draw("a .. .. | .. ..", jobs=[job(5, "1x3")])) == ["55 5. .. .."]
    # The tightest that holds it, and within that the largest group first.
    assert after(draw("a .. .. | .1 ..", jobs=[job(5, "1x3")])) == [".. .. 51 55"]
    # None does: as without wider groups.
    assert after(draw("a 1. .. | .1 ..", jobs=[job(5, "1x5")])) == ["15 55 .1 55"]
    # One that fits into a link group is not drawn to another side.
    assert after(draw("a .. .. | .1 1.", jobs=[job(5, "1x2")])) == ["55 .. .1 1."]


def test_among_nodes_the_one_that_keeps_a_share_closest_together_is_taken() -> None:
    apart, near = "a 1. .1 | 1. .1", "b 11 .. | 1. .1"
    assert after(draw(apart, near, jobs=[job(5, "1x2")])) == ["1. .1 1. .1", "11 55 1. .1"]
    wide = "b 1. .1 | 1. ... "
    assert after(draw("a 1. .1 | 11 ..", wide, jobs=[job(5, "1x4")])) == [
        "1. .1 11 ..",
        "1. .1 15 555",
    ]


def test_a_gang_takes_distinct_nodes_with_ranks_in_their_order() -> None:
    snapshot = draw("a 1...", "b ....", "c 2...", jobs=[job(5, "2x3")])
    assert after(snapshot) == ["1555", "....", "2555"]
    (start,) = plan_cycle(snapshot).starts
    assert [(p.rank, p.node) for p in start.placements] == [(0, 101), (1, 103)]


def test_a_gang_starts_whole_or_not_at_all() -> None:
    snapshot = draw("a ....", "b ..11", jobs=[job(5, "2x3")])
    assert after(snapshot) == ["....", "..11"]
    assert reasons(plan_cycle(snapshot)) == {5: WaitReason.TOPOLOGY_FRAGMENTED}


def test_tier_comes_before_age_and_age_before_id() -> None:
    older = job(9, waited=50)
    younger = job(3, waited=40)
    urgent = job(12, tier=Tier.URGENT)
    twin = job(2, waited=40)
    assert after(draw("a .", jobs=[older, younger, urgent])) == ["c"]
    assert after(draw("a .", jobs=[younger, older])) == ["9"]
    assert after(draw("a .", jobs=[younger, twin])) == ["2"]


def test_a_job_that_does_not_fit_lets_smaller_ones_pass() -> None:
    assert after(draw("a 1...", jobs=[job(5, "1x4", waited=60), job(6)])) == ["16.."]


def test_only_the_model_asked_for_is_given() -> None:
    lines = ("a ....  model=A100", "b ....  model=H100")
    assert after(draw(*lines, jobs=[job(5, "1x2", model="H100")])) == ["....", "55.."]


def test_cpus_and_memory_of_the_node_count_too() -> None:
    lines = ("a 1...  cpus=8", "b ....  cpus=16")
    assert after(draw(*lines, jobs=[job(5, cpus=8)])) == ["1...", "5..."]
    lines = ("a 1...  memory_mib=2048", "b ....  memory_mib=4096")
    assert after(draw(*lines, jobs=[job(5, memory_mib=2048)])) == ["1...", "5..."]


def test_jobs_on_one_node_share_its_cpus_and_memory() -> None:
    snapshot = draw("a ....  cpus=8", jobs=[job(5, cpus=6), job(6, cpus=6)])
    assert after(snapshot) == ["5..."]
    jobs = [job(5, memory_mib=3000), job(6, memory_mib=3000)]
    assert after(draw("a ....  memory_mib=4096", jobs=jobs)) == ["5..."]


@pytest.mark.parametrize("state", ["silent", "draining", "drained", "quarantined", "lost"])
def test_only_ready_nodes_take_work(state: str) -> None:
    assert after(draw(f"a .... {state}", "b 1...", jobs=[job(5, "1x2")])) == ["....", "155."]
    # Nor what asks for no GPU, though the first would suit it best.
    nodes = f"a . {state}", "b ...."
    [start] = plan_cycle(draw(*nodes, jobs=[job(5, "1x0")])).starts
    assert start.placements[0].node == draw(*nodes).nodes.id[1]
    [wait] = plan_cycle(draw(nodes[0], jobs=[job(5, "1x0")])).iter_waits()
    assert wait.reason is WaitReason.NODES_UNHEALTHY, wait


def test_a_device_out_of_order_is_not_given() -> None:
    assert after(draw("a x...", jobs=[job(5, "1x3")])) == ["x555"]
    assert after(draw("a x...", jobs=[job(5, "1x4")])) == ["x..."]


def test_pools_do_not_share_nodes() -> None:
    assert after(draw("a ....", "b .... pool=big", jobs=[job(5, pool="big")])) == ["....", "5..."]


def test_the_node_where_it_failed_last_is_avoided_if_another_could_hold_it() -> None:
    avoiding = job(5, "1x2", avoid="a")
    assert after(draw("a 1...", "b ....", jobs=[avoiding])) == ["1...", "55.."]
    # The other node is busy: it waits for that one rather than going back.
    assert after(draw("a ....", "b 1111", jobs=[avoiding])) == ["....", "1111"]
    # No other node could ever hold it: going back is better than waiting for ever.
    assert after(draw("a ....", "b .", jobs=[avoiding])) == ["55..", "."]


def test_an_impatient_head_keeps_the_nodes_where_it_can_start_soonest() -> None:
    snapshot = draw(
        "a 1...",
        "b 2...",
        jobs=[job(5, "1x4", waited=700), job(6, "1x2", limit_s=7200), job(7, "1x2", limit_s=7200)],
        ends={1: 500, 2: 9000},
    )
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["1...", "266."]
    assert [(r.job, r.nodes, r.start_s) for r in plan.reservations] == [(5, (101,), NOW_S + 500)]
    assert reasons(plan) == {
        5: WaitReason.TOPOLOGY_FRAGMENTED,
        7: WaitReason.BACKFILL_WOULD_DELAY_HEAD,
    }


def test_a_job_that_ends_in_time_may_pass_the_head() -> None:
    jobs = [job(5, "1x4", waited=700), job(6, limit_s=441), job(7, limit_s=440)]
    assert after(draw("a 1...", jobs=jobs, ends={1: 500})) == ["17.."]


def test_what_the_head_does_not_need_stays_open() -> None:
    snapshot = draw("a 111111..", jobs=[job(5, "1x4", waited=700), job(6, "1x2", limit_s=9999)])
    # When job 1 ends, all eight are free, and the head needs four of them.
    assert after(snapshot) == ["11111166"]


def test_before_its_patience_runs_out_nothing_is_kept_for_it() -> None:
    jobs = [job(5, "1x4", waited=599), job(6, limit_s=9999)]
    snapshot = draw("a 1...", jobs=jobs)
    assert after(snapshot) == ["16.."]
    assert picture(snapshot, plan_cycle(snapshot, Policy(head_patience_s=599))) == ["1..."]


def test_a_higher_tier_is_never_held_up_by_a_head() -> None:
    jobs = [job(5, "1x4", waited=700), job(6, tier=Tier.URGENT, limit_s=9999)]
    assert after(draw("a 1...", jobs=jobs)) == ["16.."]


def test_behind_a_head_of_a_higher_tier_the_reason_names_the_tier() -> None:
    head = job(5, "1x4", waited=700, tier=Tier.URGENT)
    plan = plan_cycle(draw("a 1...", jobs=[head, job(6, limit_s=9999)]))
    assert reasons(plan)[6] is WaitReason.BEHIND_HIGHER_PRIORITY


def test_a_job_that_cannot_start_anyway_is_no_head() -> None:
    jobs = [job(5, "1x9", waited=700), job(6, limit_s=9999)]
    assert after(draw("a 1...", jobs=jobs)) == ["16.."]


def test_a_head_whose_nodes_never_come_free_keeps_nothing() -> None:
    jobs = [job(5, "1x4", waited=700), job(6, limit_s=9999)]
    assert after(draw("a 1...", jobs=jobs, ends={1: float("inf")})) == ["16.."]


def test_each_pool_has_its_own_head() -> None:
    jobs = [job(5, "1x4", waited=700), job(6, pool="big", limit_s=9999)]
    snapshot = draw("a 1...", "b 2... pool=big", jobs=jobs)
    assert after(snapshot) == ["1...", "26.."]


def test_nothing_waits_and_nothing_is_there() -> None:
    plan = plan_cycle(draw("a ...."))
    assert plan.starts == () and len(plan.waits) == 0
    plan = plan_cycle(draw(jobs=[job(5)]))
    assert reasons(plan) == {5: WaitReason.INFEASIBLE_EVER}
