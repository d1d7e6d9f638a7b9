"""Snapshots that contradict themselves are refused by name; equal requests are one class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.grouping import group_rows
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import (
    Accounts,
    Headroom,
    Limits,
    Promises,
    SnapshotInvalid,
    Windows,
    classes_of,
    floats,
    ints,
)
from tests.builders import draw, job

SNAPSHOT = draw("a 1...", jobs=[job(5), job(6, "2x4"), job(7)])


@pytest.mark.parametrize(
    ("table", "column", "value", "names"),
    [
        ("nodes", "cpus_free", -1, "nodes.cpus_free"),
        ("nodes", "memory_total_mib", -1, "nodes.memory_total_mib"),
        ("nodes", "pool", 7, "nodes.pool"),
        ("nodes", "state", 99, "nodes.state"),
        ("devices", "node", 1, "devices.node"),
        ("devices", "model", 5, "devices.model"),
        ("devices", "holder", 3, "devices.holder"),
        ("devices", "link_group", -1, "devices.link_group"),
        ("held", "node", -1, "held.node"),
        ("held", "until_s", np.nan, "held.until_s"),
        ("held", "cpus", -1, "held.cpus"),
        ("held", "memory_mib", -1, "held.memory_mib"),
        ("waiting", "pool", 4, "waiting.pool"),
        ("waiting", "queue", -1, "waiting.queue"),
        ("waiting", "nodes", 0, "waiting.nodes"),
        ("waiting", "gpus_per_node", -1, "waiting.gpus_per_node"),
        ("waiting", "memory_mib", -5, "waiting.memory_mib"),
        ("waiting", "queued_at_s", np.nan, "waiting.queued_at_s"),
        ("waiting", "time_limit_s", 0, "waiting.time_limit_s"),
        ("waiting", "remaining_s", np.nan, "waiting.remaining_s"),
        ("waiting", "attained_s", np.nan, "waiting.attained_s"),
        ("waiting", "learnt_s", np.nan, "waiting.learnt_s"),
        ("waiting", "avoid_node", 8, "waiting.avoid_node"),
    ],
)
def test_a_value_that_makes_no_sense(table: str, column: str, value: float, names: str) -> None:
    rows = getattr(SNAPSHOT, table)
    broken = getattr(rows, column).copy()
    broken[0] = value
    with pytest.raises(SnapshotInvalid, match=names) as caught:
        plan_cycle(replace(SNAPSHOT, **{table: replace(rows, **{column: broken})}))
    assert caught.value.jobs == ((5,) if table == "waiting" else ())


_CIRCLE = Accounts.of(parent=ints([1, 0]))
_NAN = floats([np.nan])


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"accounts": _CIRCLE}, "accounts.parent .* circle"),
        ({"accounts": Accounts.of(parent=ints([-1]), weight=_NAN)}, "accounts.weight"),
        ({"accounts": Accounts.of(parent=ints([-1]), used_gpu_s=_NAN)}, "accounts.used_gpu_s"),
        ({"accounts": Accounts.of(parent=ints([-1]), budget_gpu_s=_NAN)}, "accounts.budget_gpu_s"),
        ({"limits": Limits.of(account=ints([3]))}, "limits.account"),
        ({"promises": Promises(ints([5]), ints([9]), floats([0]))}, "promises.node"),
        ({"promises": Promises(ints([5]), ints([0]), _NAN)}, "promises.start_s"),
        ({"prices": _NAN}, "prices"),
        ({"prices": floats([1, 1])}, "prices and models"),
        ({"wait_limit_s": _NAN}, "wait_limit_s"),
        ({"run_share": floats([0])}, "run_share"),
        ({"windows": Windows(ints([1]), ints([0]), _NAN, floats([9]))}, "windows.from_s"),
        ({"headroom": Headroom(*[ints([n]) for n in (1, 4, -1, 2)])}, "headroom.pool"),
        ({"missing_mib": ints([-1]).reshape(1, 1)}, "missing_mib"),
        ({"missing_mib": ints([1, 2]).reshape(1, 2)}, "missing_mib"),
    ],
)
def test_a_table_that_makes_no_sense(changes: dict[str, object], names: str) -> None:
    with pytest.raises(SnapshotInvalid, match=names):
        plan_cycle(replace(SNAPSHOT, **changes))


def test_columns_of_different_length() -> None:
    nodes = replace(SNAPSHOT.nodes, cpus_free=ints([1, 2]))
    with pytest.raises(SnapshotInvalid, match="Nodes"):
        plan_cycle(replace(SNAPSHOT, nodes=nodes))


def test_a_time_that_is_not_a_number() -> None:
    with pytest.raises(SnapshotInvalid, match="time"):
        plan_cycle(replace(SNAPSHOT, now_s=float("nan")))


def test_a_job_that_waits_twice() -> None:
    with pytest.raises(SnapshotInvalid, match="twice"):
        plan_cycle(draw("a 1...", jobs=[job(5), job(5)]))


def test_equal_requests_are_one_class_whatever_their_tier_age_and_limit() -> None:
    jobs = [job(1), job(2, tier=30, waited=9, limit_s=5), job(3, "1x2"), job(4)]
    classes = classes_of(draw("a .", jobs=jobs).waiting)
    assert len(classes.requests) == 2
    assert len(set(classes.of_job[[0, 1, 3]].tolist())) == 1
    assert classes.requests[classes.of_job[2]].gpus == 2


def test_grouping_equals_unique_rows_even_when_the_numbers_are_huge() -> None:
    huge = np.array([0, 2**61, 0, 2**61, 5], dtype=np.int64)
    other = np.array([-(2**61), 3, -(2**61), 4, 2**60], dtype=np.int64)
    first, group = group_rows([huge, other, huge])
    assert len(first) == 4
    assert group[0] == group[2]
    assert len({int(g) for g in group}) == 4
    assert all(group[row] == number for number, row in enumerate(first.tolist()))


@pytest.mark.parametrize("most", [3, 40, 10_000])
def test_grouping_equals_unique_rows_looked_up_or_sorted(most: int) -> None:
    rng = np.random.default_rng(most)
    columns = [rng.integers(-2, most, 300) for _ in range(2)]
    first, group = group_rows(columns)
    _, right_first, right = np.unique(
        np.stack(columns), axis=1, return_index=True, return_inverse=True
    )
    assert first.tolist() == right_first.tolist()
    assert group.tolist() == right.ravel().tolist()


def test_only_cuts_the_waiting_jobs() -> None:
    assert SNAPSHOT.only(ints([1])).waiting.id.tolist() == [6]


@pytest.mark.parametrize("dial", ["head_patience_s", "backfill_slack_s"])
def test_a_policy_refuses_what_makes_no_sense(dial: str) -> None:
    for value in (-1.0, float("nan")):
        with pytest.raises(ValueError, match=dial):
            Policy(**{dial: value})
