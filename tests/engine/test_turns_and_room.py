"""Who is first, and who has room: counted without the engine's own means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.ordering import order_waiting
from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import NONE, Snapshot, classes_of
from tests.engine.test_properties import PATIENT, snapshots, with_starts


@given(snapshots())
def test_who_waits_on_one_node_fits_on_none_by_hand(snapshot: Snapshot) -> None:
    """Counted anew for each job and node, with nothing of the engine's; for jobs that are not in
    a paused queue and for which nobody keeps room."""
    plan = plan_cycle(snapshot, PATIENT)
    later, waiting = with_starts(snapshot, plan), snapshot.waiting
    nodes, devices = later.nodes, later.devices
    for number in plan.waits.job.tolist():
        row = int(np.flatnonzero(waiting.id == number)[0])
        gpus, model = int(waiting.gpus_per_node[row]), int(waiting.model[row])
        is_lone = waiting.nodes[row] == 1 and not waiting.part_gpus[row]
        if not is_lone or snapshot.queue_is_paused[waiting.queue[row]]:
            continue
        for node in range(len(nodes.id)):
            here = (devices.node == node) & (devices.holder == NONE) & devices.is_healthy
            if model != NONE:
                here &= devices.model == model
            has_room = (
                nodes.pool[node] == waiting.pool[row]
                and nodes.takes_work[node]
                and nodes.cpus_free[node] >= waiting.cpus[row]
                and nodes.memory_free_mib[node] >= waiting.memory_mib[row]
            )
            is_avoided = node == waiting.avoid_node[row]
            assert not (has_room and int(here.sum()) >= gpus) or is_avoided


@given(snapshots(), st.sampled_from(Order))
def test_older_is_never_behind_younger_with_equal_inputs(snapshot: Snapshot, order: Order) -> None:
    """Under every order: it starts first, and waits with fewer before it."""
    waiting, classes = snapshot.waiting, classes_of(snapshot.waiting)
    plan = plan_cycle(snapshot, Policy(order=order))
    ahead = {wait.job: int(str(wait.facts["ahead"])) for wait in plan.iter_waits()}
    rows = [int(np.flatnonzero(waiting.id == number)[0]) for number in ahead]
    for older in rows:
        for younger in rows:
            if (
                classes.of_job[older] == classes.of_job[younger]
                and waiting.tier[older] == waiting.tier[younger]
                and waiting.time_limit_s[older] == waiting.time_limit_s[younger]
                and waiting.queued_at_s[older] < waiting.queued_at_s[younger]
            ):
                assert ahead[int(waiting.id[older])] <= ahead[int(waiting.id[younger])]
    started = np.isin(waiting.id, [start.job for start in plan.starts])
    for older in np.flatnonzero(~started).tolist():
        for younger in np.flatnonzero(started).tolist():
            equal = (
                classes.of_job[older] == classes.of_job[younger]
                and waiting.tier[older] >= waiting.tier[younger]
                and waiting.time_limit_s[older] <= waiting.time_limit_s[younger]
            )
            assert not equal or waiting.queued_at_s[older] >= waiting.queued_at_s[younger]


@given(snapshots(), st.integers(0, 100))
def test_the_first_job_still_starts_when_one_more_device_is_free(
    snapshot: Snapshot, pick: int
) -> None:
    if not len(snapshot.waiting):
        return
    first = snapshot.only(order_waiting(snapshot)[:1])
    held = np.flatnonzero(first.devices.holder != NONE)
    if plan_cycle(first).starts and len(held):
        holder = first.devices.holder.copy()
        holder[held[pick % len(held)]] = NONE
        assert plan_cycle(replace(first, devices=replace(first.devices, holder=holder))).starts
