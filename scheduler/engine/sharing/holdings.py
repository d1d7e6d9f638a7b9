"""What accounts hold now, by what limits are set for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.grouping import group_rows
from scheduler.engine.sharing.cohorts import Cohorts
from scheduler.engine.sharing.tree import Tree, held_milli
from scheduler.engine.snapshot import NONE, Ints, Snapshot, Waiting, ints

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


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """A job that starts, or for which all is kept that it starts with: the models of its devices,
    what it takes of each, and for how long at most."""

    account: int
    pool: int
    models: Ints
    gpu_milli: int
    limit_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """The models of the devices that a job will have beyond those it holds, and its time limit."""

    account: int
    pool: int
    models: Ints
    limit_s: float


def growths(snapshot: Snapshot, claimants: Waiting) -> Iterator[Growth]:
    """For whom more is kept than they hold, the waiting `claimants` aside: who is being resized."""
    claims, devices, held = snapshot.claims, snapshot.devices, snapshot.held
    for job in np.unique(claims.job[~np.isin(claims.job, claimants.id)]).tolist():
        mine, rows = np.flatnonzero(claims.job == job), np.flatnonzero(held.job == job)
        if not len(rows) or held.account[rows[0]] == NONE:
            continue
        size = len(snapshot.models)
        kept = np.bincount(models_kept(snapshot, job), minlength=size)
        has = np.bincount(devices.model[np.isin(devices.holder, rows)], minlength=size)
        yield Growth(
            account=int(held.account[rows[0]]),
            pool=int(snapshot.nodes.pool[claims.node[mine[0]]]),
            models=ints(np.repeat(np.arange(size), np.maximum(kept - has, 0))),
            limit_s=float(claims.until_s[mine].max()) - snapshot.now_s,
        )


def models_kept(snapshot: Snapshot, job: int) -> Ints:
    """Of which models the devices are that are kept for a job (its id)."""
    mine = np.flatnonzero(snapshot.claims.job == job)
    return ints(snapshot.devices.model[np.isin(snapshot.devices.claim, mine)])


def jobs_held(snapshot: Snapshot) -> Ints:
    """By account: jobs of its own that hold something."""
    held = snapshot.held
    _, first = np.unique(held.job, return_index=True)
    account = held.account[first]
    return ints(np.bincount(account[account != NONE], minlength=len(snapshot.accounts)))
