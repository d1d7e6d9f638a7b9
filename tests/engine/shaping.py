"""Drawn clusters with racks, licences, tenants and other limits, for engine tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from scheduler.engine.plan import Plan
from scheduler.engine.snapshot import (
    SPREADS,
    TOPOLOGIES,
    Flags,
    Held,
    Ints,
    Snapshot,
    Tokens,
    Waiting,
    flags,
    floats,
    ints,
)

Cells = Mapping[int, object]
Columns = TypeVar("Columns", Waiting, Held)


def shaped(
    snapshot: Snapshot,
    *,
    jobs: Mapping[str, Cells] | None = None,
    nodes: Mapping[str, Sequence[int]] | None = None,
    devices: Mapping[str, Sequence[int]] | None = None,
    held: Mapping[str, Cells] | None = None,
    near: Mapping[int, str] | None = None,
    **tables: object,
) -> Snapshot:
    """The drawn cluster with these columns.

    `jobs`: by column the value of each job (id); `held` the same by running job. `nodes`,
    `devices`: whole columns. `near`: by job such as "rack required". The rest are tables of the
    snapshot itself.
    """
    waiting, holding = snapshot.waiting, snapshot.held
    cells = dict(jobs or {})
    for number, words in (near or {}).items():
        level, spread = words.split()
        cells["topology"] = {**cells.get("topology", {}), number: TOPOLOGIES.index(level)}
        cells["spread"] = {**cells.get("spread", {}), number: SPREADS.index(spread)}
    waiting = _with_cells(waiting, waiting.id, cells)
    holding = _with_cells(holding, holding.job, held or {})
    return replace(
        snapshot,
        waiting=waiting,
        held=holding,
        nodes=replace(snapshot.nodes, **{name: ints(col) for name, col in (nodes or {}).items()}),
        devices=replace(
            snapshot.devices, **{name: ints(col) for name, col in (devices or {}).items()}
        ),
        **tables,
    )


def _with_cells(table: Columns, ids: np.ndarray, cells: Mapping[str, Cells]) -> Columns:
    changed = {}
    for name, values in cells.items():
        column = getattr(table, name).copy()
        for number, value in values.items():
            column[ids == number] = value
        changed[name] = column
    return replace(table, **changed)


def in_racks(snapshot: Snapshot, racks: str, blocks: str = "") -> Snapshot:
    """One letter a node, "-" for unknown: "aabb" puts two nodes into each of two racks."""
    columns = {"rack": _groups(racks)}
    if blocks:
        columns["block"] = _groups(blocks)
    return shaped(snapshot, nodes=columns)


def _groups(letters: str) -> list[int]:
    return [-1 if letter == "-" else ord(letter) - ord("a") for letter in letters]


def licensed(
    snapshot: Snapshot,
    total: Mapping[str, int],
    asks: Mapping[int, Mapping[str, int]],
    used: Sequence[tuple[int, str, int, float]] = (),
) -> Snapshot:
    """`asks`: by job its tokens; `used`: (job, licence, count, seconds from now)."""
    names = tuple(total)
    sets = tuple(tuple((names.index(n), c) for n, c in needs.items()) for needs in asks.values())
    return shaped(
        snapshot,
        jobs={"licences": {number: row for row, number in enumerate(asks)}},
        licences=names,
        licence_total=ints(list(total.values())),
        licence_sets=sets,
        tokens=Tokens(
            job=ints([job for job, _, _, _ in used]),
            licence=ints([names.index(name) for _, name, _, _ in used]),
            count=ints([count for _, _, count, _ in used]),
            until_s=floats([snapshot.now_s + end for _, _, _, end in used]),
        ),
    )


def mask(*marks: str) -> Flags:
    """One row a mask, one mark a node: "x" where a job may not go."""
    return flags([letter != "x" for row in marks for letter in row]).reshape(len(marks), -1)


def after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot of the next cycle, a moment later, with the plan's starts running."""
    waiting, nodes, devices = snapshot.waiting, snapshot.nodes, snapshot.devices
    row_of = {number: row for row, number in enumerate(waiting.id.tolist())}
    shares = [(row_of[start.job], p) for start in plan.starts for p in start.placements]
    rows = ints([row for row, _ in shares])
    node = ints([int(np.flatnonzero(nodes.id == p.node)[0]) for _, p in shares])
    begin = len(snapshot.held.job)
    holder = devices.holder.copy()
    for number, (_, placement) in enumerate(shares):
        holder[np.isin(devices.id, placement.devices)] = begin + number
    free = {}
    for name, asked in (("cpus", "cpus"), ("memory", "memory_mib"), ("scratch", "scratch_mib")):
        column = f"{name}_free" + ("" if name == "cpus" else "_mib")
        left = getattr(nodes, column).copy()
        np.subtract.at(left, node, getattr(waiting, asked)[rows])
        free[column] = left
    held = Held.of(
        job=waiting.id[rows],
        node=node,
        cpus=waiting.cpus[rows],
        memory_mib=waiting.memory_mib[rows],
        until_s=snapshot.now_s + waiting.remaining_s[rows],
        scratch_mib=waiting.scratch_mib[rows],
        tenant=waiting.tenant[rows],
        shares_cards=waiting.shares_cards[rows],
        is_exclusive=waiting.is_exclusive[rows],
    )
    started = ints([row_of[start.job] for start in plan.starts])
    left = np.setdiff1d(np.arange(len(waiting)), started)
    return replace(
        snapshot.only(ints(left)),
        nodes=replace(nodes, **free),
        devices=replace(devices, holder=holder),
        held=snapshot.held.join(held),
        tokens=snapshot.tokens.join(_tokens_of(snapshot, started)),
    )


def _tokens_of(snapshot: Snapshot, started: Ints) -> Tokens:
    """What the started rows hold of licences."""
    waiting = snapshot.waiting
    taken = [
        (int(waiting.id[row]), licence, count, snapshot.now_s + float(waiting.remaining_s[row]))
        for row in started.tolist()
        if waiting.licences[row] >= 0
        for licence, count in snapshot.licence_sets[int(waiting.licences[row])]
    ]
    columns = list(zip(*taken, strict=True)) or [()] * 4
    return Tokens(
        job=ints(columns[0]),
        licence=ints(columns[1]),
        count=ints(columns[2]),
        until_s=floats(columns[3]),
    )
