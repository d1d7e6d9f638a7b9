"""Who runs if everything is chosen anew: the jobs worth most together within the GPUs of a pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, Request, flags

# The choice of the best set looks so far down the order; beyond, one more job changes nothing.
DEPTH = 24
# In a pool of more GPUs the order alone fills it as well.
LARGEST_EXACT = 512


def apart(requests: Sequence[Request]) -> list[int]:
    """Classes without whole GPUs, or that counts do not tell: nobody stops for them."""
    return [
        row
        for row, request in enumerate(requests)
        if request.is_share or not request.gpus or not request.is_counted or request.booking != NONE
    ]


def choose_set(gpus: Ints, value: Floats, capacity: int) -> Flags:
    """Which jobs of one tier, given in their order, run within `capacity` GPUs.

    The first `DEPTH` jobs by a 0/1 knapsack, the most value within the GPUs; then all others that
    still fit, in order. The order alone leaves GPUs idle beside a wide job that comes first, or
    stops several nearly finished jobs for one.
    """
    chosen = flags(np.zeros(len(gpus)))
    head = min(len(gpus), DEPTH) if capacity <= LARGEST_EXACT else 0
    if head:
        chosen[:head] = _knapsack(gpus[:head], value[:head], capacity)
    left = capacity - int(gpus[chosen].sum())
    for row in range(len(gpus)):
        if left <= 0:
            break
        need = int(gpus[row])
        if not chosen[row] and need <= left:
            chosen[row] = True
            left -= need
    return chosen


def _knapsack(gpus: Ints, value: Floats, capacity: int) -> Flags:
    """The items of the most value within the capacity; of equals the earlier ones.

    The table over capacities (Bellman), one row an item.
    """
    chosen = flags(np.zeros(len(gpus)))
    if int(gpus.sum()) <= capacity:
        return flags(np.ones(len(gpus)))
    best = np.zeros(capacity + 1)
    is_taken = np.zeros((len(gpus), capacity + 1), dtype=np.bool_)
    for row, (need, worth) in enumerate(zip(gpus.tolist(), value.tolist(), strict=True)):
        if need <= capacity:
            with_it = best[: capacity + 1 - need] + worth
            better = with_it > best[need:]
            is_taken[row, need:] = better
            best[need:] = np.where(better, with_it, best[need:])
    left = capacity
    for row in range(len(gpus) - 1, -1, -1):
        if is_taken[row, left]:
            chosen[row] = True
            left -= int(gpus[row])
    return chosen
