"""Who shares what: a tree of accounts, and the limits that hold for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from scheduler.engine.snapshot.columns import NONE, Floats, Ints, Table

ANY_AMOUNT = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True, eq=False)
class Accounts(Table):
    """A tree: the organisation, its teams, and below each its projects and its people.

    `parent` is a row before this one, -1 for none. `weight` is the share beside its siblings.
    `used_gpu_s`: past use in GPU-seconds, decayed until now, of this account without those below.
    `max_gpus_per_job` and `max_running` (jobs) are -1 without a cap; they hold for all below.
    `budget_gpu_s`: GPU-seconds that nobody has used or committed yet, infinite without a budget;
    `budget_money`: the same in the unit of the snapshot's prices; `ANY_AMOUNT` pays for all that
    has a price.
    """

    USUAL: ClassVar[Mapping[str, int | float | bool]] = {
        "weight": 1.0,
        "used_gpu_s": 0.0,
        "max_gpus_per_job": NONE,
        "max_running": NONE,
        "budget_gpu_s": np.inf,
        "budget_money": np.inf,
    }

    parent: Ints
    weight: Floats
    used_gpu_s: Floats
    max_gpus_per_job: Ints
    max_running: Ints
    budget_gpu_s: Floats
    budget_money: Floats

    def __len__(self) -> int:
        return len(self.parent)


@dataclass(frozen=True, slots=True, eq=False)
class Limits(Table):
    """How many GPUs an account and all below it may hold of a pool and a model; -1 means any.

    `guaranteed` GPUs are its own: others use them only while it does not. `borrow_limit`: most
    above that, `lend_limit`: most of the guarantee that others may use, `maximum`: most in all;
    -1 sets no limit. One row for each account, pool and model.
    """

    USUAL: ClassVar[Mapping[str, int | float | bool]] = {
        "pool": NONE,
        "model": NONE,
        "guaranteed": 0,
        "borrow_limit": NONE,
        "lend_limit": NONE,
        "maximum": NONE,
    }

    account: Ints
    pool: Ints
    model: Ints
    guaranteed: Ints
    borrow_limit: Ints
    lend_limit: Ints
    maximum: Ints
