"""What a job is worth at this moment under an order: its place, and the value of running it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.engine.policy import Order
from scheduler.engine.snapshot import Floats, Ints, Waiting, flags, floats, ints

# Levels of attained GPU time: below 600 GPU-seconds, then four times as much each.
FIRST_LEVEL_S, LEVEL_FACTOR = 600.0, 4.0
# How much more a running job counts where run times are only learnt.
STAYING = 1.3


def gpus_of(jobs: Waiting) -> Ints:
    """GPUs of all shares, by job."""
    return ints(jobs.nodes * jobs.gpus_per_node + jobs.part_gpus)


def level_of(jobs: Waiting) -> Ints:
    """How often each job's attained GPU time has passed the end of a level.

    Least attained service in queues that grow by a factor: Tiresias (NSDI'19, section 3.3), where
    jobs sink as they use GPUs because nobody knows how long they are.
    """
    attained = jobs.attained_s * gpus_of(jobs) / FIRST_LEVEL_S
    # The tiny step keeps a job that has just reached a level from hanging on below it.
    passed = np.floor(np.log(np.maximum(attained, 1e-9)) / np.log(LEVEL_FACTOR) + 1e-9) + 1
    return ints(np.maximum(passed, 0))


def length_of(jobs: Waiting, order: Order) -> Floats:
    """What an order without preemption sorts by, the least first; never below zero.

    Shortest: run time x root of GPUs, between shortest run time and least GPU time. A wide job
    blocks more than it uses, yet pure GPU time lets it wait for ever.
    """
    if order in (Order.FIFO, Order.FAIR):
        return floats(np.zeros(len(jobs)))
    left_s = expected_s(jobs, order)
    return floats(level_of(jobs) if left_s is None else left_s * np.sqrt(gpus_of(jobs)))


def lengths_of(jobs: Waiting, orders: Sequence[Order]) -> Floats:
    """`length_of` each job under the order of its pool; `orders` has one for each pool."""
    if len(set(orders)) == 1:
        return length_of(jobs, orders[0])
    length = floats(np.zeros(len(jobs)))
    for order in sorted(set(orders)):
        rows = flags([one is order for one in orders])[jobs.pool]
        length[rows] = length_of(jobs.take(rows), order)
    return length


def expected_s(jobs: Waiting, order: Order) -> Floats | None:
    """The run time still ahead as this order may know it; None if it is not known of all.

    Shortest: as declared, else as learnt. Las: only as learnt.
    """
    is_declared = np.isfinite(jobs.remaining_s) & (order is Order.SHORTEST)
    left_s = floats(np.where(is_declared, jobs.remaining_s, jobs.learnt_s))
    return left_s if np.isfinite(left_s).all() else None


def worth_by_pool(
    jobs: Waiting, saved_s: Floats, orders: Sequence[Order | None]
) -> tuple[Floats, Floats]:
    """`preemptive_worth` of each job under the order of its pool; nothing where that has none."""
    key, value = floats(np.zeros(len(jobs))), floats(np.zeros(len(jobs)))
    for order in sorted({one for one in orders if one is not None}):
        rows = flags([one is order for one in orders])[jobs.pool]
        key[rows], value[rows] = preemptive_worth(jobs.take(rows), saved_s[rows], order)
    return key, value


def preemptive_worth(jobs: Waiting, saved_s: Floats, order: Order) -> tuple[Floats, Floats]:
    """With preemption: what jobs are sorted by, the least first, and the value of running each.

    `saved_s` is the work a job spares if it is not stopped; 0 for those that wait. By remaining
    GPU time, and ends per second; if that is not known, by the level, and the ends per second that
    it makes likely, a wide job's a little more.
    """
    gpus = gpus_of(jobs)
    left_s = expected_s(jobs, order)
    if left_s is None:
        level = floats(level_of(jobs))
        return level, floats(LEVEL_FACTOR**-level * np.sqrt(gpus))
    is_guess = np.isinf(jobs.remaining_s) | (order is Order.LAS)
    # What is learnt is rough: equal jobs shall not swap places for a small difference.
    left_s = np.where(is_guess & (saved_s > 0), left_s / STAYING, left_s - saved_s * ~is_guess)
    left_s = np.maximum(left_s, 1.0)
    return floats(left_s * gpus), floats(1.0 / left_s)
