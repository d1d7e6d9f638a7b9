"""Pictures of clusters for engine tests.

    snapshot = draw(
        "a  .... ..11",      # node a: two link groups; job 1 holds the last two GPUs
        "b  ..x.        draining",
        "c  ....        pool=large model=A100 cpus=8",
        jobs=[job(7, "2x4", waited=60), job(8, "1x1", tier=20)],
        ends={1: 300},
    )

In a drawing `.` is a free GPU, `x` one out of order, any letter or digit a GPU that this job
holds (`1` is job 1, `a` is job 10). `"2x4"` asks for two nodes with four GPUs each, `"2x4+1"`
for one GPU on a third node as well. Row numbers and ids differ on purpose: node rows count from 0,
node ids from 101, device ids from 1001.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.plan import Plan
from scheduler.engine.snapshot import (
    NODE_STATES,
    NONE,
    Devices,
    Held,
    Ints,
    Nodes,
    Snapshot,
    Waiting,
    flags,
    floats,
    ints,
)
from scheduler.states import NodeState, Tier

NOW_S = 1_800_000_000.0


@dataclass(frozen=True)
class DrawnJob:
    id: int
    nodes: int
    gpus: int
    tier: int
    waited: float
    cpus: int
    memory_mib: int
    model: str
    limit_s: int
    pool: str
    queue: str
    avoid: str
    part: int
    attained_s: float


def job(
    id: int,
    shape: str = "1x1",
    *,
    tier: int = Tier.NORMAL,
    waited: float = 0,
    cpus: int = 1,
    memory_mib: int = 1024,
    model: str = "",
    limit_s: int = 3600,
    pool: str = "default",
    queue: str = "default",
    avoid: str = "",
    attained_s: float = 0,
) -> DrawnJob:
    """One waiting job; `waited` in seconds, `avoid` names a node."""
    shares, _, part = shape.partition("+")
    nodes, gpus = (int(number) for number in shares.split("x"))
    where = (pool, queue, avoid)
    need = (id, nodes, gpus, tier, waited, cpus, memory_mib, model, limit_s)
    return DrawnJob(*need, *where, int(part or 0), attained_s)


@dataclass(frozen=True)
class DrawnNode:
    name: str
    groups: tuple[str, ...]
    state: NodeState
    pool: str
    model: str
    cpus: int
    memory_mib: int


def _node(line: str) -> DrawnNode:
    name, *words = line.split()
    groups, options, state = [], {}, NodeState.READY
    for word in words:
        if "=" in word:
            key, value = word.split("=")
            options[key] = value
        elif word in set(NodeState):
            state = NodeState(word)
        else:
            groups.append(word)
    return DrawnNode(
        name=name,
        groups=tuple(groups),
        state=state,
        pool=options.get("pool", "default"),
        model=options.get("model", "H100"),
        cpus=int(options.get("cpus", 64)),
        memory_mib=int(options.get("memory_mib", 256 * 1024)),
    )


def draw(
    *lines: str,
    jobs: Sequence[DrawnJob] = (),
    ends: Mapping[int, float] | None = None,
    paused: Sequence[str] = (),
    held_cpus: int = 1,
    now_s: float = NOW_S,
) -> Snapshot:
    """The snapshot of a drawn cluster. `ends`: job id to seconds from now, an hour unless given.

    Each share of a drawn job holds `held_cpus` CPUs and a GiB of its node.
    """
    drawn = [_node(line) for line in lines]
    pools = sorted({"default"} | {n.pool for n in drawn} | {j.pool for j in jobs})
    queues = sorted({"default"} | {j.queue for j in jobs} | set(paused))
    models = sorted({n.model for n in drawn} | {j.model for j in jobs if j.model})
    devices, holders = _devices(drawn, models)
    ends = ends or {}
    shares = np.zeros(len(drawn), dtype=np.int64)
    for _, row in holders:
        shares[row] += 1
    return Snapshot(
        now_s=now_s,
        pools=tuple(pools),
        queues=tuple(queues),
        queue_is_paused=flags([name in paused for name in queues]),
        models=tuple(models),
        nodes=_nodes(drawn, pools, shares * held_cpus, shares * 1024),
        devices=devices,
        held=Held.of(
            job=ints([number for number, _ in holders]),
            node=ints([row for _, row in holders]),
            cpus=ints([held_cpus] * len(holders)),
            memory_mib=ints([1024] * len(holders)),
            until_s=floats([now_s + ends.get(number, 3600) for number, _ in holders]),
        ),
        waiting=_waiting(jobs, pools, queues, models, [n.name for n in drawn], now_s),
    )


def _nodes(drawn: Sequence[DrawnNode], pools: list[str], cpus_used: Ints, used_mib: Ints) -> Nodes:
    cpus, memory = ints([n.cpus for n in drawn]), ints([n.memory_mib for n in drawn])
    return Nodes.of(
        id=ints(np.arange(len(drawn)) + 101),
        pool=ints([pools.index(n.pool) for n in drawn]),
        state=ints([NODE_STATES.index(n.state) for n in drawn]),
        takes_work=flags([n.state is NodeState.READY for n in drawn]),
        cpus_total=cpus,
        cpus_free=ints(cpus - cpus_used),
        memory_total_mib=memory,
        memory_free_mib=ints(memory - used_mib),
    )


def _devices(
    drawn: Sequence[DrawnNode], models: list[str]
) -> tuple[Devices, list[tuple[int, int]]]:
    """The devices, and what holds some of them: (job, node row) by holder row."""
    holders: dict[tuple[int, int], int] = {}
    rows: list[tuple[int, int, int, int, bool, int]] = []
    groups = wide = 0
    for node_row, node in enumerate(drawn):
        has_wide, wide = "|" in node.groups, wide + 1
        for group in node.groups:
            if group == "|":
                wide += 1
                continue
            for mark in group:
                holder = NONE
                if mark not in ".x":
                    holder = holders.setdefault((int(mark, 36), node_row), len(holders))
                within = groups, wide if has_wide else NONE
                rows.append((node_row, models.index(node.model), *within, mark != "x", holder))
            groups += 1
    node_of, model, group_of, wide_of, healthy, holder_of = (
        list(zip(*rows, strict=True)) or [()] * 6
    )
    devices = Devices.of(
        id=ints(np.arange(len(rows)) + 1001),
        node=ints(node_of),
        model=ints(model),
        link_group=ints(group_of),
        wide_group=ints(wide_of),
        is_healthy=flags(healthy),
        holder=ints(holder_of),
        is_shareable=flags([False] * len(rows)),
    )
    return devices, list(holders)


def _waiting(
    jobs: Sequence[DrawnJob],
    pools: Sequence[str],
    queues: Sequence[str],
    models: Sequence[str],
    names: Sequence[str],
    now_s: float,
) -> Waiting:
    return Waiting.of(
        id=ints([j.id for j in jobs]),
        pool=ints([pools.index(j.pool) for j in jobs]),
        queue=ints([queues.index(j.queue) for j in jobs]),
        tier=ints([j.tier for j in jobs]),
        queued_at_s=floats([now_s - j.waited for j in jobs]),
        nodes=ints([j.nodes for j in jobs]),
        gpus_per_node=ints([j.gpus for j in jobs]),
        cpus=ints([j.cpus for j in jobs]),
        memory_mib=ints([j.memory_mib for j in jobs]),
        model=ints([models.index(j.model) if j.model else NONE for j in jobs]),
        time_limit_s=ints([j.limit_s for j in jobs]),
        avoid_node=ints([names.index(j.avoid) if j.avoid else NONE for j in jobs]),
        part_gpus=ints([j.part for j in jobs]),
        remaining_s=floats([j.limit_s for j in jobs]),
        attained_s=floats([j.attained_s for j in jobs]),
    )


def picture(snapshot: Snapshot, plan: Plan) -> list[str]:
    """The cluster as drawn, one line a node, with the plan's starts entered."""
    marks: dict[int, str] = {}
    for start in plan.starts:
        for placement in start.placements:
            marks |= dict.fromkeys(placement.devices, np.base_repr(start.job, 36).lower())
    devices, lines = snapshot.devices, []
    for node in range(len(snapshot.nodes.id)):
        line, last = "", None
        for row in np.flatnonzero(devices.node == node).tolist():
            if last is not None and devices.link_group[row] != last:
                line += " "
            last = devices.link_group[row]
            line += _mark(snapshot, row, marks)
        lines.append(line)
    return lines


def _mark(snapshot: Snapshot, row: int, marks: Mapping[int, str]) -> str:
    devices = snapshot.devices
    if devices.holder[row] != NONE:
        number = int(snapshot.held.job[devices.holder[row]])
        return np.base_repr(number, 36).lower()
    if not devices.is_healthy[row]:
        return "x"
    return marks.get(int(devices.id[row]), ".")
