"""What holds for any snapshot with racks, elastic jobs, licences, tenants and other limits."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.shaping.sizes import sizes_of
from scheduler.engine.shaping.topology import BALANCED, REQUIRED
from scheduler.engine.snapshot import (
    NONE,
    TOPOLOGIES,
    Snapshot,
    Tokens,
    classes_of,
    flags,
    floats,
    ints,
)
from scheduler.states import wait_sentence
from tests.builders import draw, job
from tests.engine.shaping import after, shaped

PATIENT = Policy(head_patience_s=float("inf"))
SETS = (((0, 1),), ((0, 2), (1, 1)), ((1, 3),))
TOTALS = (3, 4)


WISHES: tuple[dict[str, object], ...] = (
    {},
    {"nodes_min": 1},
    {"is_exclusive": True},
    {"mask": 0},
    {"gpu_memory_mib": 80},
    {"scratch_mib": 60},
    *({"licences": row} for row in range(len(SETS))),
    *({"topology": level, "spread": spread} for level in (1, 2) for spread in range(3)),
    {"topology": 1, "spread": 0, "nodes_min": 1},
    {"topology": 1, "spread": 2, "nodes_min": 1, "licences": 0},
)
_rows_of_gpus = st.sampled_from([".. ..", ".. ..", "1. ..", ".. 23", "x. ..", "4444"])


@st.composite
def shapes(drawing: st.DrawFn) -> Snapshot:
    """Clusters with room, and jobs with one or two wishes each."""

    def column(of: st.SearchStrategy, count: int) -> list:
        return drawing(st.lists(of, min_size=count, max_size=count))

    nodes, size = drawing(st.integers(2, 7)), drawing(st.integers(1, 9))
    states = column(st.sampled_from(["", "", "", "draining", "quarantined"]), nodes)
    marked = zip(column(_rows_of_gpus, nodes), states, strict=True)
    lines = [f"n{row} {marks} {state}" for row, (marks, state) in enumerate(marked)]
    jobs = [
        job(
            number + 100,
            drawing(
                st.sampled_from(["1x0", "1x1", "1x2", "2x0", "2x1", "2x2", "3x1", "4x2", "2x3+1"])
            ),
            waited=drawing(st.sampled_from([0, 700, 900])),
            limit_s=drawing(st.sampled_from([60, 600, 7200])),
        )
        for number in range(size)
    ]
    ends = {number: drawing(st.sampled_from([-5, 100, 5000])) for number in range(1, 5)}
    snapshot = draw(*lines, jobs=jobs, ends=ends)
    cells: dict[str, dict[int, object]] = {}
    for drawn in jobs:
        wishes = {**drawing(st.sampled_from(WISHES)), **drawing(st.sampled_from([{}, *WISHES]))}
        if drawn.part:
            wishes = {k: v for k, v in wishes.items() if k not in ("nodes_min", "is_exclusive")}
        wishes["tenant"] = drawing(st.integers(0, 1))
        wishes["shares_cards"] = drawing(st.booleans())
        for name, value in wishes.items():
            cells.setdefault(name, {})[drawn.id] = value
    return _limited(drawing, snapshot, cells)


def _limited(drawing: st.DrawFn, snapshot: Snapshot, cells: dict) -> Snapshot:
    nodes, devices = len(snapshot.nodes.id), len(snapshot.devices.id)
    holders = sorted(set(snapshot.held.job.tolist()))
    racks = [drawing(st.sampled_from([0, 0, 1, 2, NONE])) for _ in range(nodes)]
    memory = [drawing(st.sampled_from([40, 80, 80])) for _ in range(nodes)]
    is_cut = drawing(st.booleans())
    is_open = [drawing(st.sampled_from([True, True, False])) for _ in range(nodes)]
    return shaped(
        snapshot,
        jobs=cells,
        held={
            "tenant": {number: drawing(st.integers(0, 1)) for number in holders},
            "shares_cards": {number: drawing(st.booleans()) for number in holders},
        },
        nodes={
            "rack": racks,
            "block": [NONE if rack == NONE else rack // 2 for rack in racks],
            "scratch_total_mib": [100] * nodes,
            "scratch_free_mib": [drawing(st.sampled_from([100, 50])) for _ in range(nodes)],
            "failures": [drawing(st.sampled_from([0, 0, 1])) for _ in range(nodes)],
        },
        devices={
            "memory_mib": [memory[node] for node in snapshot.devices.node.tolist()],
            "card": (np.arange(devices) // 2 if is_cut else np.full(devices, NONE)).tolist(),
        },
        node_masks=flags(is_open).reshape(1, nodes),
        mask_names=("gen=5",),
        licences=("sim", "solver"),
        licence_total=ints(TOTALS),
        licence_sets=SETS,
        tokens=Tokens(
            job=ints(holders[:2]),
            licence=ints(range(len(holders[:2]))),
            count=ints([2] * len(holders[:2])),
            until_s=snapshot.now_s + floats([100, 5000][: len(holders)]),
        ),
    )


def starts_of(snapshot: Snapshot, plan: Plan):
    """Each start with its row of `Waiting`, its node rows and its device rows."""
    row_of_job = {number: row for row, number in enumerate(snapshot.waiting.id.tolist())}
    row_of_node = {number: row for row, number in enumerate(snapshot.nodes.id.tolist())}
    row_of_device = {number: row for row, number in enumerate(snapshot.devices.id.tolist())}
    for start in plan.starts:
        yield (
            row_of_job[start.job],
            ints([row_of_node[p.node] for p in start.placements]),
            [ints([row_of_device[d] for d in p.devices]) for p in start.placements],
        )


@given(shapes())
def test_every_job_gets_one_verdict_and_every_sentence_is_complete(snapshot: Snapshot) -> None:
    plan = plan_cycle(snapshot)
    waits = list(plan.iter_waits())
    answered = [start.job for start in plan.starts] + [wait.job for wait in waits]
    assert sorted(answered) == sorted(snapshot.waiting.id.tolist())
    for wait in waits:
        assert "?" not in wait_sentence(wait.reason, wait.facts)
        json.dumps(dict(wait.facts), allow_nan=False)


@given(shapes())
def test_a_gang_is_whole_and_on_nodes_that_obey_every_limit(snapshot: Snapshot) -> None:
    devices, classes = snapshot.devices, classes_of(snapshot.waiting)
    masks = snapshot.node_masks
    assert masks is not None
    scratch = snapshot.nodes.scratch_free_mib.copy()
    given_out: list[int] = []
    for row, nodes, taken in starts_of(snapshot, plan_cycle(snapshot)):
        request = classes.requests[int(classes.of_job[row])]
        part = int(request.part_gpus > 0)
        assert len(nodes) - part in sizes_of(snapshot, request, request.nodes)
        assert len(set(nodes.tolist())) == len(nodes)
        assert snapshot.nodes.takes_work[nodes].all()
        wanted = [request.gpus] * (len(nodes) - part) + [request.part_gpus] * part
        for node, rows, gpus in zip(nodes.tolist(), taken, wanted, strict=True):
            everything = np.flatnonzero((devices.node == node) & devices.is_healthy)
            assert len(rows) == (len(everything) if request.is_exclusive else gpus)
            assert (devices.node[rows] == node).all() and (devices.holder[rows] == NONE).all()
            if not request.is_exclusive:
                assert (devices.memory_mib[rows] >= request.gpu_memory_mib).all()
            assert request.mask == NONE or masks[request.mask, node]
            given_out += rows.tolist()
        scratch[nodes] -= request.scratch_mib
    assert max(Counter(given_out).values(), default=1) == 1
    assert (scratch >= 0).all()


@given(shapes())
def test_a_rack_or_block_that_is_required_is_kept(snapshot: Snapshot) -> None:
    waiting, nodes = snapshot.waiting, snapshot.nodes
    for row, rows, _ in starts_of(snapshot, plan_cycle(snapshot)):
        level = TOPOLOGIES[waiting.topology[row]]
        if not level:
            continue
        group = getattr(nodes, level)[rows]
        if waiting.spread[row] == REQUIRED:
            assert len(set(group.tolist())) == 1 and group[0] != NONE
        if waiting.spread[row] == BALANCED:
            parts = Counter(group[: len(group) - int(waiting.part_gpus[row] > 0)].tolist())
            assert NONE not in parts and max(parts.values()) - min(parts.values()) <= 1


@given(shapes())
def test_licences_never_exceed_their_totals(snapshot: Snapshot) -> None:
    used = Counter(dict.fromkeys(range(len(TOTALS)), 0))
    for licence, count in zip(snapshot.tokens.licence, snapshot.tokens.count, strict=True):
        used[int(licence)] += int(count)
    for row, _, _ in starts_of(snapshot, plan_cycle(snapshot)):
        if snapshot.waiting.licences[row] != NONE:
            used.update(dict(SETS[int(snapshot.waiting.licences[row])]))
    assert all(used[row] <= total for row, total in enumerate(TOTALS))


@given(shapes())
def test_tenants_meet_on_a_card_only_if_all_opted_in(snapshot: Snapshot) -> None:
    devices, held, waiting = snapshot.devices, snapshot.held, snapshot.waiting
    on_card: dict[int, list[tuple[int, bool]]] = {}
    for device in np.flatnonzero(devices.holder != NONE).tolist():
        holder = int(devices.holder[device])
        who = (int(held.tenant[holder]), bool(held.shares_cards[holder]))
        on_card.setdefault(int(devices.card[device]), []).append(who)
    for row, _, taken in starts_of(snapshot, plan_cycle(snapshot)):
        who = (int(waiting.tenant[row]), bool(waiting.shares_cards[row]))
        for device in np.concatenate([*taken, ints([])]).tolist():
            if devices.card[device] == NONE:
                continue
            others = on_card.setdefault(int(devices.card[device]), [])
            strangers = [other for other in others if other[0] != who[0]]
            assert not strangers or (who[1] and all(shares for _, shares in others))
            others.append(who)


@given(shapes())
def test_an_exclusive_job_is_alone(snapshot: Snapshot) -> None:
    waiting = snapshot.waiting
    residents = Counter(snapshot.held.node.tolist())
    alone: set[int] = set()
    for row, nodes, _ in starts_of(snapshot, plan_cycle(snapshot)):
        residents.update(nodes.tolist())
        if waiting.is_exclusive[row]:
            alone |= set(nodes.tolist())
    assert all(residents[node] == 1 for node in alone)


@given(shapes())
def test_who_waits_without_a_head_has_no_room(snapshot: Snapshot) -> None:
    plan = plan_cycle(snapshot, PATIENT)
    assert plan_cycle(after(snapshot, plan), PATIENT).starts == ()


@given(shapes())
def test_a_heads_start_never_moves_back(snapshot: Snapshot) -> None:
    plan = plan_cycle(snapshot)
    later = plan_cycle(after(snapshot, plan))
    promised = {reservation.job: reservation.start_s for reservation in plan.reservations}
    for reservation in later.reservations:
        assert reservation.start_s <= promised.get(reservation.job, np.inf)
    assert {r.job for r in later.reservations} >= set(promised)
