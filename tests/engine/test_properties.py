"""What holds for any snapshot."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.board import Board
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.explaining import rule_out
from scheduler.engine.gang import can_start, choose_nodes, start_gang
from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.ordering import order_waiting
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Held, Snapshot, classes_of, floats, ints
from scheduler.states import NodeState, Tier, WaitReason, wait_sentence
from tests.builders import DrawnJob, draw, job

PATIENT = Policy(head_patience_s=float("inf"))
NO_ROOM = {WaitReason.CAPACITY_BUSY, WaitReason.TOPOLOGY_FRAGMENTED}

_groups = st.lists(st.text("....12345x", min_size=1, max_size=4), min_size=0, max_size=2)
_states = st.sampled_from(["", "", "", *map(str, set(NodeState) - {NodeState.RETIRED})])

_shapes = st.builds(
    lambda nodes, gpus, part: f"{nodes}x{gpus}+{max(0, min(part, gpus - 1))}",
    st.sampled_from([1, 1, 1, 2, 3]),
    st.integers(0, 5),
    st.sampled_from([0, 0, 0, 1, 3]),
)


@st.composite
def _lines(drawing: st.DrawFn) -> list[str]:
    lines = []
    for number in range(drawing(st.integers(0, 5))):
        lines.append(
            f"n{number} {' '.join(drawing(_groups))} {drawing(_states)} "
            f"cpus={drawing(st.sampled_from([8, 16]))} "
            f"pool={drawing(st.sampled_from(['default', 'default', 'big']))} "
            f"model={drawing(st.sampled_from(['H100', 'A100']))}"
        )
    return lines


@st.composite
def snapshots(drawing: st.DrawFn) -> Snapshot:
    lines = drawing(_lines())
    names = ["", "", "", *(line.split()[0] for line in lines)]
    jobs: list[DrawnJob] = [
        job(
            number + 100,
            drawing(_shapes),
            tier=drawing(st.sampled_from([Tier.NORMAL, Tier.NORMAL, Tier.URGENT])),
            waited=drawing(st.sampled_from([0, 5, 700, 900])),
            cpus=drawing(st.sampled_from([1, 4, 12])),
            memory_mib=drawing(st.sampled_from([1024, 100 * 1024])),
            model=drawing(st.sampled_from(["", "", "H100", "B200"])),
            limit_s=drawing(st.sampled_from([60, 600, 7200])),
            pool=drawing(st.sampled_from(["default", "default", "big"])),
            queue=drawing(st.sampled_from(["default", "default", "night"])),
            avoid=drawing(st.sampled_from(names)),
        )
        for number in range(drawing(st.integers(0, 12)))
    ]
    ends = {number: drawing(st.sampled_from([-5, 100, 1000, 5000])) for number in range(1, 6)}
    paused = ["night"] if drawing(st.booleans()) else []
    return draw(*lines, jobs=jobs, ends=ends, paused=paused)


def verdict_list(plan: Plan) -> list[object]:
    waits = [(wait.job, wait.reason, dict(wait.facts)) for wait in plan.iter_waits()]
    return [plan.starts, plan.reservations, waits]


@given(snapshots())
def test_every_job_gets_exactly_one_verdict(snapshot: Snapshot) -> None:
    plan = plan_cycle(snapshot)
    answered = [start.job for start in plan.starts] + [wait.job for wait in plan.iter_waits()]
    assert sorted(answered) == sorted(snapshot.waiting.id.tolist())


@given(snapshots(), snapshots(), st.integers(2, 4), st.sampled_from([0, 60]))
def test_with_several_heads_and_any_promises_every_job_gets_one_verdict(
    snapshot: Snapshot, earlier: Snapshot, heads: int, slack: int
) -> None:
    """The earlier plan was made for another cluster, so that its promises may make no sense."""
    policy = Policy(heads=heads, backfill_slack_s=slack)
    told = plan_cycle(earlier, policy).reservations
    remembered = with_promises(snapshot, told)
    plan = plan_cycle(remembered, policy)
    answered = [start.job for start in plan.starts] + [wait.job for wait in plan.iter_waits()]
    assert sorted(answered) == sorted(snapshot.waiting.id.tolist())
    again = with_promises(with_starts(snapshot, plan), plan.reservations)
    assert plan_cycle(again, policy).starts == ()


@given(snapshots())
def test_gangs_start_whole_on_distinct_nodes_with_what_they_asked_for(snapshot: Snapshot) -> None:
    nodes, devices, waiting = snapshot.nodes, snapshot.devices, snapshot.waiting
    row_of_job = {number: row for row, number in enumerate(waiting.id.tolist())}
    row_of_node = {number: row for row, number in enumerate(nodes.id.tolist())}
    row_of_device = {number: row for row, number in enumerate(devices.id.tolist())}
    given_out: list[int] = []
    cpus, memory = nodes.cpus_free.copy(), nodes.memory_free_mib.copy()
    for start in plan_cycle(snapshot).starts:
        row = row_of_job[start.job]
        part = int(waiting.part_gpus[row])
        shares = [int(waiting.gpus_per_node[row])] * int(waiting.nodes[row]) + [part] * (part > 0)
        assert [p.rank for p in start.placements] == list(range(len(shares)))
        assert len({p.node for p in start.placements}) == len(shares)
        for placement in start.placements:
            node = row_of_node[placement.node]
            assert nodes.takes_work[node] and nodes.pool[node] == waiting.pool[row]
            assert len(placement.devices) == shares[placement.rank]
            for device in map(row_of_device.__getitem__, placement.devices):
                assert devices.node[device] == node
                assert devices.holder[device] == NONE and devices.is_healthy[device]
                assert waiting.model[row] in (NONE, devices.model[device])
                given_out.append(device)
            assert (placement.cpus, placement.memory_mib) == (
                waiting.cpus[row],
                waiting.memory_mib[row],
            )
            cpus[node] -= placement.cpus
            memory[node] -= placement.memory_mib
    assert len(given_out) == len(set(given_out))
    assert (cpus >= 0).all() and (memory >= 0).all()


@given(snapshots(), st.randoms(use_true_random=False))
def test_same_snapshot_same_plan_in_whatever_order_the_rows_come(snapshot, random) -> None:
    expected = verdict_list(plan_cycle(snapshot))
    assert verdict_list(plan_cycle(snapshot)) == expected
    rows = list(range(len(snapshot.waiting)))
    random.shuffle(rows)
    assert verdict_list(plan_cycle(snapshot.only(ints(rows)))) == expected


@given(snapshots())
def test_classes_decide_the_same_as_one_job_after_the_other(snapshot: Snapshot) -> None:
    board, classes = Board(snapshot), classes_of(snapshot.waiting)
    ruled_out = rule_out(board, classes)
    expected = []
    for row in order_waiting(snapshot).tolist():
        class_row = int(classes.of_job[row])
        request = classes.requests[class_row]
        nodes = choose_nodes(board, request)
        if class_row not in ruled_out and nodes is not None:
            number = int(snapshot.waiting.id[row])
            expected.append(start_gang(board, number, request, nodes, 0.0, uses_spare=True))
    assert list(plan_cycle(snapshot, PATIENT).starts) == expected


@given(snapshots())
def test_nobody_waits_for_room_that_nobody_reserved(snapshot: Snapshot) -> None:
    plan = plan_cycle(snapshot)
    after = with_starts(snapshot, plan)
    again = plan_cycle(after, PATIENT)
    reserved = {r.job for r in plan.reservations}
    if not reserved:
        assert again.starts == ()
    for wait in plan.iter_waits():
        if wait.reason in NO_ROOM:
            assert wait.job not in {start.job for start in again.starts}


def with_starts(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot of the next cycle, a moment later."""
    nodes, devices, held, waiting = (
        snapshot.nodes,
        snapshot.devices,
        snapshot.held,
        snapshot.waiting,
    )
    holder, cpus, memory = (
        devices.holder.copy(),
        nodes.cpus_free.copy(),
        nodes.memory_free_mib.copy(),
    )
    shares: list[tuple[int, int, int, int, float]] = []
    for start in plan.starts:
        row = int(np.flatnonzero(waiting.id == start.job)[0])
        for p in start.placements:
            node = int(np.flatnonzero(nodes.id == p.node)[0])
            holder[np.isin(devices.id, p.devices)] = len(held.job) + len(shares)
            cpus[node] -= p.cpus
            memory[node] -= p.memory_mib
            until_s = snapshot.now_s + float(waiting.time_limit_s[row])
            shares.append((start.job, node, p.cpus, p.memory_mib, until_s))
    added = list(zip(*shares, strict=True)) or [()] * 5
    started = np.isin(waiting.id, [start.job for start in plan.starts])
    return replace(
        snapshot.only(ints(np.flatnonzero(~started))),
        nodes=replace(nodes, cpus_free=cpus, memory_free_mib=memory),
        devices=replace(devices, holder=holder),
        held=held.join(
            Held.of(
                job=ints(added[0]),
                node=ints(added[1]),
                cpus=ints(added[2]),
                memory_mib=ints(added[3]),
                until_s=floats(added[4]),
            )
        ),
    )


@given(snapshots())
def test_a_plan_leaves_nothing_to_do_for_the_next_cycle(snapshot: Snapshot) -> None:
    after = with_starts(snapshot, plan_cycle(snapshot))
    assert plan_cycle(after).starts == ()


@given(snapshots())
def test_every_sentence_is_complete_and_every_fact_is_plain(snapshot: Snapshot) -> None:
    for wait in plan_cycle(snapshot).iter_waits():
        assert "?" not in wait_sentence(wait.reason, wait.facts)
        assert wait.reason is not WaitReason.EVALUATING
        json.dumps(dict(wait.facts), allow_nan=False)


@given(snapshots())
def test_jobs_of_several_queues_are_explained_as_if_each_had_its_own_cycle(
    snapshot: Snapshot,
) -> None:
    """Classes that differ in their queue alone are decided and explained together. Renaming the
    queues so that no two jobs share one, unless it is paused, changes nothing but the name."""
    waiting, size = snapshot.waiting, len(snapshot.waiting)
    apart = replace(
        snapshot,
        queues=tuple(f"own-{row}" for row in range(size)),
        queue_is_paused=snapshot.queue_is_paused[waiting.queue],
        waiting=replace(waiting, queue=ints(range(size))),
    )
    one, other = plan_cycle(snapshot), plan_cycle(apart)
    assert (one.starts, one.reservations) == (other.starts, other.reservations)
    for wait, alone in zip(one.iter_waits(), other.iter_waits(), strict=True):
        row = int(np.flatnonzero(waiting.id == wait.job)[0])
        facts = {**alone.facts, "queue": snapshot.queues[int(waiting.queue[row])]}
        assert (wait.job, wait.reason, dict(wait.facts)) == (alone.job, alone.reason, facts)
        assert alone.facts["queue"] == f"own-{row}"


@given(snapshots())
def test_asking_whether_it_can_start_equals_choosing_its_nodes(snapshot: Snapshot) -> None:
    board = Board(snapshot)
    for request in classes_of(snapshot.waiting).requests:
        assert can_start(board, request) == (choose_nodes(board, request) is not None)
