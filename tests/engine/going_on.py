"""Drawn clusters as time goes by: what runs ends at its limit, what fits starts, nobody comes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import DEFAULT_POLICY, Policy
from scheduler.engine.snapshot import NONE, Slices, Snapshot, ints
from tests.engine.owners import after


def played(snapshot: Snapshot, policy: Policy = DEFAULT_POLICY) -> dict[int, float]:
    """When each waiting job starts (seconds since 1970), of those that do before all has ended."""
    began: dict[int, float] = {}
    while True:
        plan = plan_cycle(snapshot, policy)
        began |= {start.job: snapshot.now_s for start in plan.starts}
        snapshot = after(snapshot, plan)
        ends_s = snapshot.held.until_s[np.isfinite(snapshot.held.until_s)]
        if not len(ends_s):
            return began
        snapshot = at(snapshot, max(float(ends_s.min()), snapshot.now_s))


def at(snapshot: Snapshot, now_s: float) -> Snapshot:
    """The cluster at a later moment, without who has ended."""
    nodes, held, devices, slices = snapshot.nodes, snapshot.held, snapshot.devices, snapshot.slices
    is_over = held.until_s <= now_s
    cpus, memory = nodes.cpus_free.copy(), nodes.memory_free_mib.copy()
    np.add.at(cpus, held.node[is_over], held.cpus[is_over])
    np.add.at(memory, held.node[is_over], held.memory_mib[is_over])
    left = ints(np.flatnonzero(~is_over))
    # The last is nobody's.
    row_of = np.full(len(is_over) + 1, NONE)
    row_of[left] = np.arange(len(left))
    lives = row_of[slices.holder] != NONE
    return replace(
        snapshot,
        now_s=now_s,
        nodes=replace(nodes, cpus_free=cpus, memory_free_mib=memory),
        devices=replace(devices, holder=ints(row_of[devices.holder])),
        held=held.take(left),
        slices=Slices(
            ints(row_of[slices.holder[lives]]), slices.device[lives], slices.milli[lives]
        ),
    )
