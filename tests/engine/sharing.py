"""Drawn clusters whose GPUs may be shared, for engine tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.plan import Plan
from scheduler.engine.snapshot import Demand, Held, Slices, Snapshot, floats, ints


def shared(
    snapshot: Snapshot,
    *,
    milli: Mapping[int, int] | None = None,
    models: Mapping[int, str] | None = None,
    slices: Sequence[tuple[int, int, int]] = (),
    demand: Sequence[tuple[int, int, int, int]] = (),
    ends: Mapping[int, float] | None = None,
) -> Snapshot:
    """The drawn cluster with every device shareable.

    `milli`: by job what it asks of its GPU; `models`: by job the models it takes, "A100|H100".
    `slices`: (job, device row, milli) of running jobs, without cpus; `ends` in seconds from now.
    `demand`: (gpus, gpu_milli, cpus, count).
    """
    devices, held, waiting = snapshot.devices, snapshot.held, snapshot.waiting
    asked, wanted = waiting.gpu_milli.copy(), waiting.model.copy()
    for number, size in (milli or {}).items():
        asked[waiting.id == number] = size
    sets: list[tuple[int, ...]] = []
    for number, names in (models or {}).items():
        wanted[waiting.id == number] = len(snapshot.models) + len(sets)
        sets.append(tuple(snapshot.models.index(name) for name in names.split("|")))
    holders, rows, sizes = list(zip(*slices, strict=True)) or [()] * 3
    count, none = len(held.job), [0] * len(slices)
    until_s = [snapshot.now_s + (ends or {}).get(number, 3600) for number in holders]
    gpus, parts, cpus, popularity = list(zip(*demand, strict=True)) or [()] * 4
    return replace(
        snapshot,
        devices=replace(devices, is_shareable=np.ones(len(devices.id), dtype=np.bool_)),
        held=held.join(
            Held.of(
                job=ints(holders),
                node=devices.node[ints(rows)],
                cpus=ints(none),
                memory_mib=ints(none),
                until_s=floats(until_s),
            )
        ),
        waiting=replace(waiting, gpu_milli=asked, model=wanted),
        model_sets=tuple(sets),
        slices=Slices(ints(range(count, count + len(slices))), ints(rows), ints(sizes)),
        demand=Demand(
            ints(gpus), ints(parts), ints(cpus), ints([-1] * len(demand)), ints(popularity)
        ),
    )


def spots(plan: Plan) -> dict[int, list[tuple[int, tuple[int, ...]]]]:
    """By started job its (node row, device rows), as `draw` numbers them."""
    return {
        start.job: [
            (placement.node - 101, tuple(device - 1001 for device in placement.devices))
            for placement in start.placements
        ]
        for start in plan.starts
    }


def after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot of the next cycle, a moment later, with the plan's starts running."""
    devices, held, waiting, nodes = (
        snapshot.devices,
        snapshot.held,
        snapshot.waiting,
        snapshot.nodes,
    )
    holder, cpus = devices.holder.copy(), nodes.cpus_free.copy()
    memory = nodes.memory_free_mib.copy()
    shares: list[tuple[int, int, int, int, float]] = []
    cuts: list[tuple[int, int, int]] = []
    for start in plan.starts:
        row = int(np.flatnonzero(waiting.id == start.job)[0])
        until_s = snapshot.now_s + float(waiting.time_limit_s[row])
        for placement in start.placements:
            node = int(np.flatnonzero(nodes.id == placement.node)[0])
            number = len(held.job) + len(shares)
            shares.append((start.job, node, placement.cpus, placement.memory_mib, until_s))
            cpus[node] -= placement.cpus
            memory[node] -= placement.memory_mib
            for device in np.flatnonzero(np.isin(devices.id, placement.devices)).tolist():
                if placement.gpu_milli == 1000:
                    holder[device] = number
                else:
                    cuts.append((number, device, placement.gpu_milli))
    added = list(zip(*shares, strict=True)) or [()] * 5
    cut = list(zip(*cuts, strict=True)) or [()] * 3
    old = snapshot.slices
    left = ints(np.flatnonzero(~np.isin(waiting.id, [start.job for start in plan.starts])))
    return replace(
        snapshot.only(left),
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
        slices=Slices(
            ints([*old.holder, *cut[0]]),
            ints([*old.device, *cut[1]]),
            ints([*old.milli, *cut[2]]),
        ),
    )
