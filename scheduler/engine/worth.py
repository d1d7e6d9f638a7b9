"""What a job is worth at this moment under an order: its place, and the value of running it."""

from __future__ import annotations

import numpy as np

from scheduler.engine.policy import Order
from scheduler.engine.snapshot import Floats, Ints, Waiting, floats, ints

# Levels of attained GPU time: below 600 GPU-seconds, then four times as much each.
FIRST_LEVEL_S, LEVEL_FACTOR = 600.0, 4.0


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


def next_level_s(jobs: Waiting) -> Floats:
    """By job: the seconds it still has to run until it sinks a level."""
    end = FIRST_LEVEL_S * LEVEL_FACTOR ** level_of(jobs).astype(np.float64)
    return floats(np.maximum(end / np.maximum(gpus_of(jobs), 1) - jobs.attained_s, 0.0))


def length_of(jobs: Waiting, order: Order) -> Floats:
    """What an order without preemption sorts by, the least first; never below zero.

    Shortest: run time x root of GPUs, between shortest run time and least GPU time. A wide job
    blocks more than it uses, yet pure GPU time lets it wait for ever.
    """
    if order is Order.SHORTEST:
        return floats(jobs.remaining_s * np.sqrt(gpus_of(jobs)))
    if order is Order.LAS:
        return floats(level_of(jobs))
    return floats(np.zeros(len(jobs)))


def preemptive_worth(jobs: Waiting, saved_s: Floats, order: Order) -> tuple[Floats, Floats]:
    """With preemption: what jobs are sorted by, the least first, and the value of running each.

    `saved_s` is the work a job spares if it is not stopped; 0 for those that wait. Shortest:
    remaining GPU time, and ends per second. Las: the level, and what its jobs are likely to end
    per second, a wider one more; both from attained service alone.
    """
    gpus = gpus_of(jobs)
    if order is Order.LAS:
        level = floats(level_of(jobs))
        return level, floats(LEVEL_FACTOR**-level * np.sqrt(gpus))
    left_s = np.maximum(jobs.remaining_s - saved_s, 1.0)
    return floats(left_s * gpus), floats(1.0 / left_s)
