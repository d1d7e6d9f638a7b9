"""What a share takes of a node: arrays whose first axis is GPUs, cpus, memory, scratch."""

from __future__ import annotations

import numpy as np

from scheduler.engine.snapshot import Flags, Ints, Request, ints


def need_of(request: Request) -> Ints:
    """What one share takes of a node."""
    return ints([request.gpus, request.cpus, request.memory_mib, request.scratch_mib])


def hold(amounts: Ints, request: Request, *, in_gpus: bool = True) -> Flags:
    """Where one share fits into the amounts; whether its GPUs have to."""
    first = 0 if in_gpus else 1
    need = need_of(request).reshape(-1, *[1] * (amounts.ndim - 1))
    return np.asarray((amounts[first:] >= need[first:]).all(axis=0))
