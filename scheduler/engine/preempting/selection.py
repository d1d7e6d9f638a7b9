"""Who runs if everything is chosen anew: the jobs worth most together within the GPUs of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.preempting.permits import Permits, take_in_order
from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, Request, flags, ints

# The choice of the best set looks so far down the order; beyond, one more job changes nothing.
DEPTH = 24
# In a pool of more GPUs the order alone fills it as well.
LARGEST_EXACT = 512


@dataclass(frozen=True, slots=True, eq=False)
class Needs:
    """What each job takes and is worth, by row.

    `gpus`: so many; `spare`: those of them that an elastic job that runs can do without. `value`:
    of running it. `runs`: whether it does already.
    """

    pool: Ints
    tier: Ints
    gpus: Ints
    spare: Ints
    value: Floats
    runs: Flags


def choose_runners(
    order: Ints, needs: Needs, capacity: Sequence[int], permits: Permits | None
) -> Ints:
    """Which of the rows of `order` run: in each pool tier by tier, within the GPUs left.

    `order`: by pool, higher tiers first. `capacity`: GPUs by pool. `permits`: None if all may run.
    Who would stop stays if there is room for it once the elastic ones of its tier shrink; lower
    tiers then get no more than those leave over who do not.
    """
    chosen, left = list[int](), list(capacity)
    group = needs.pool[order] * (needs.tier.max(initial=0) + 1) - needs.tier[order]
    for rows in np.split(order, np.flatnonzero(np.diff(group)) + 1) if len(order) else ():
        pool = int(needs.pool[rows[0]])
        picked = rows[choose_set(needs.gpus[rows], needs.value[rows], left[pool])]
        if permits is not None:
            # The best set as far as they may, then the others in order.
            line = [*picked.tolist(), *np.setdiff1d(rows, picked, assume_unique=True).tolist()]
            picked = ints(take_in_order(line, needs.gpus, permits, left[pool]))
        if needs.spare[rows].any():
            picked = _keep_by_shrinking(rows, picked, needs, left[pool], permits)
        left[pool] = max(0, left[pool] - int(needs.gpus[picked].sum()))
        chosen += picked.tolist()
    return ints(chosen)


def _keep_by_shrinking(
    rows: Ints, picked: Ints, needs: Needs, left: int, permits: Permits | None
) -> Ints:
    """Those `picked`, and who runs already as far as there is room once elastic ones shrink."""
    leaving = rows[needs.runs[rows] & ~np.isin(rows, picked)].tolist()
    least = needs.gpus - needs.spare
    room, kept = left - int(least[picked].sum()), picked.tolist()
    for row in leaving:
        if least[row] <= room and (permits is None or permits.take(row)):
            kept.append(row)
            room -= int(least[row])
    return ints(kept)


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
