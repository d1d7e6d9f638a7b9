"""Every reason, with the sentence a person reads."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Wait
from scheduler.engine.snapshot import Snapshot
from scheduler.states import WaitReason, wait_sentence
from tests.builders import NOW_S, draw, job


def wait_of(snapshot: Snapshot, job_id: int = 5) -> Wait:
    (wait,) = (wait for wait in plan_cycle(snapshot).iter_waits() if wait.job == job_id)
    json.dumps(dict(wait.facts))  # facts are plain values, for the database and the API
    return wait


def sentence(snapshot: Snapshot, reason: WaitReason) -> str:
    wait = wait_of(snapshot)
    assert wait.reason is reason
    shown = wait_sentence(wait.reason, wait.facts)
    assert "?" not in shown, "a slot of the sentence has no fact"
    return shown


def test_infeasible_names_the_largest_node() -> None:
    snapshot = draw("a ....", "b ........ cpus=96", jobs=[job(5, "1x9")])
    assert sentence(snapshot, WaitReason.INFEASIBLE_EVER) == (
        "No node of pool default can ever hold it: needs 9 GPUs, "
        "the largest node has 8 GPUs, 96 CPUs and 256 GiB."
    )


def test_infeasible_says_when_only_the_number_of_nodes_is_too_high() -> None:
    snapshot = draw("a ....", "b ....", "c ..", jobs=[job(5, "3x4", model="H100")])
    assert sentence(snapshot, WaitReason.INFEASIBLE_EVER) == (
        "No node of pool default can ever hold it: needs 3 nodes × 4 H100, the largest node "
        "has 4 H100, 64 CPUs and 256 GiB, and only 2 nodes hold one share."
    )


def test_infeasible_for_a_model_that_the_pool_does_not_have() -> None:
    snapshot = draw("a ....", jobs=[job(5, model="B200")])
    assert "needs 1 B200, the largest node has 0 B200" in sentence(
        snapshot, WaitReason.INFEASIBLE_EVER
    )


def test_infeasible_in_a_pool_without_nodes() -> None:
    snapshot = draw("a ....", jobs=[job(5, pool="empty")])
    assert "the pool has no nodes yet" in sentence(snapshot, WaitReason.INFEASIBLE_EVER)


def test_lost_hardware_may_come_back_and_is_not_infeasible() -> None:
    snapshot = draw("a ....", "b .... lost", "c x...", jobs=[job(5, "2x4")])
    assert sentence(snapshot, WaitReason.NODES_UNHEALTHY) == (
        "Needs 2 nodes × 4 GPUs; 2 of 3 nodes in pool default take no work now "
        "(1 lost, 1 with GPUs out of order)."
    )


def test_a_paused_queue_outranks_missing_nodes_but_not_infeasibility() -> None:
    lines = ("a .... silent",)
    snapshot = draw(*lines, jobs=[job(5, queue="night")], paused=["night"])
    paused = "In pool default the queue night is paused by an operator."
    assert sentence(snapshot, WaitReason.POOL_CLOSED) == paused
    snapshot = draw(*lines, jobs=[job(5, "1x9", queue="night")], paused=["night"])
    assert wait_of(snapshot).reason is WaitReason.INFEASIBLE_EVER


def test_busy_counts_what_is_free_of_what_is_there() -> None:
    snapshot = draw("a 11..", "b 2222", "c .... silent", jobs=[job(5, "2x2", model="H100")])
    assert sentence(snapshot, WaitReason.CAPACITY_BUSY) == (
        "Needs 2 nodes × 2 H100; 2 of 12 GPUs in pool default are free."
    )


def test_fragmented_counts_the_nodes_that_hold_enough() -> None:
    snapshot = draw("a 111.", "b ....", "c ..22", jobs=[job(5, "2x3")])
    assert sentence(snapshot, WaitReason.TOPOLOGY_FRAGMENTED) == (
        "Needs 2 nodes × 3 GPUs; 7 GPUs in pool default are free, but not together: "
        "nodes with room for it now: 1."
    )


def test_cpus_that_are_short_are_named() -> None:
    snapshot = draw("a 1...  cpus=16", jobs=[job(5, cpus=16, memory_mib=2048)])
    assert sentence(snapshot, WaitReason.TOPOLOGY_FRAGMENTED) == (
        "Needs 1 GPU with 16 CPUs and 2 GiB; 3 GPUs in pool default are free, but not on nodes "
        "with all else that it needs: nodes with room for it now: 0."
    )


def test_who_needs_no_gpu_is_told_of_nodes_and_not_of_gpus() -> None:
    snapshot = draw("a 1...  cpus=16", jobs=[job(5, "1x0", cpus=16, memory_mib=2048)])
    assert sentence(snapshot, WaitReason.CAPACITY_BUSY) == (
        "Needs 16 CPUs and 2 GiB; nodes in pool default with room for it now: 0."
    )
    assert not {"free", "total"} & set(wait_of(snapshot).facts)


def test_behind_a_head_the_facts_name_it_and_count_who_is_ahead() -> None:
    jobs = [job(4, "1x4", waited=700), job(6, "1x4", waited=650), job(5, limit_s=9999)]
    wait = wait_of(draw("a 1...", jobs=jobs))
    assert wait.reason is WaitReason.BACKFILL_WOULD_DELAY_HEAD
    assert (wait.facts["head"], wait.facts["ahead"]) == (4, 2)


def test_jobs_that_cannot_start_are_not_counted_as_ahead() -> None:
    jobs = [job(4, "1x9", waited=90), job(6, "1x4", waited=80), job(5, "1x4", waited=70)]
    assert wait_of(draw("a 1...", jobs=jobs)).facts["ahead"] == 1


def test_the_first_in_line_learns_when_it_starts_at_the_latest() -> None:
    jobs = [job(5, "2x4", waited=10), job(6, "2x4")]
    snapshot = draw("a 1...", "b 2...", "c 3...", jobs=jobs, ends={1: 5000, 2: 601, 3: 1201})
    facts = wait_of(snapshot).facts
    assert facts["start_p90_at"] == NOW_S + 1260  # 1201 s, rounded up to the minute
    assert facts["next_free_at"] == NOW_S + 660
    facts = wait_of(snapshot, 6).facts
    assert facts["start_p90_at"] == NOW_S + 5100  # 3600 s after the first, in steps of five minutes


def test_the_next_gpus_come_free_with_who_holds_gpus() -> None:
    """A job of processors alone that ends sooner frees none."""
    snapshot = draw("a 1111", jobs=[job(5, "1x1")], ends={1: 36_000})
    held = snapshot.held
    aside = {
        one.name: np.append(getattr(held, one.name), getattr(held, one.name)[:1])
        for one in fields(held)
    }
    aside["until_s"][-1] = NOW_S + 600
    both = replace(snapshot, held=replace(held, **aside))
    assert wait_of(both).facts["next_free_at"] == NOW_S + 36_000


def test_without_limits_nobody_can_say_when() -> None:
    snapshot = draw("a 1...", jobs=[job(5, "1x4")], ends={1: float("inf")})
    facts = wait_of(snapshot).facts
    assert facts["start_p90_at"] is None
    assert facts["start_why"] == "What it waits for has no end in sight."
    assert facts["next_free_at"] is None


@pytest.mark.parametrize("job_id", [5, 6])
def test_a_wait_can_be_read_alone(job_id: int) -> None:
    plan = plan_cycle(draw("a 1", jobs=[job(5), job(6)]))
    row = plan.waits.job.tolist().index(job_id)
    assert plan.waits[row].facts["ahead"] == row
