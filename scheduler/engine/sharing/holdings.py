"""What accounts hold now, by what limits are set for."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from scheduler.engine.grouping import group_rows
from scheduler.engine.sharing.cohorts import Cohorts
from scheduler.engine.sharing.tree import Tree, held_milli
from scheduler.engine.snapshot import NONE, Ints, Snapshot, ints

# A pool and a model, -1 for any.
Scope: TypeAlias = tuple[int, int]


def cohorts_of(snapshot: Snapshot, tree: Tree) -> dict[Scope, Cohorts]:
    """By pool and model that some limit is for: what is held and may be."""
    limits = snapshot.limits
    first, scope_of = group_rows([limits.pool, limits.model])
    holder, device, milli = held_milli(snapshot)
    account = snapshot.held.account[holder]
    pool_of = snapshot.nodes.pool[snapshot.devices.node]
    found = {}
    for number, row in enumerate(first.tolist()):
        pool, model = int(limits.pool[row]), int(limits.model[row])
        here = np.ones(len(pool_of), dtype=np.bool_)
        if pool != NONE:
            here &= pool_of == pool
        if model != NONE:
            here &= snapshot.devices.model == model
        counted = here[device] & (account != NONE)
        held = np.zeros(len(snapshot.accounts), dtype=np.int64)
        np.add.at(held, account[counted], milli[counted])
        capacity = int(snapshot.weights()[snapshot.devices.model[here]].sum())
        found[pool, model] = Cohorts(tree, limits.take(scope_of == number), held, capacity)
    return found


def jobs_held(snapshot: Snapshot) -> Ints:
    """By account: jobs of its own that hold something."""
    held = snapshot.held
    _, first = np.unique(held.job, return_index=True)
    account = held.account[first]
    return ints(np.bincount(account[account != NONE], minlength=len(snapshot.accounts)))
