"""A made-up month of a busy cluster: which device was in which bucket for which attempt, when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

GPUS = 8
# How a node's cards are shared out among jobs; each row adds up to eight.
_GANGS = ((8,), (4, 4), (4, 2, 2), (2, 2, 2, 2), (1,) * 8)
_OUT_OF_USE = ("drained", "down")


@dataclass(frozen=True, slots=True)
class Stay:
    """One gang of devices in one bucket; `attempt` counts from 0, -1: nobody. None: still so."""

    start_s: int
    end_s: int | None
    devices: tuple[int, ...]
    bucket: str
    attempt: int


def nodes_for(segments: int) -> int:
    """How many nodes: a thousand segments a card, as a month of jobs of two hours gives."""
    return max(1, round(segments / 1_000 / GPUS))


def month(segments: int, start_s: int, end_s: int, seed: int) -> Iterator[list[Stay]]:
    """The stays of each gang of each node, in order of time; devices are numbered from 0."""
    chance = random.Random(seed)
    nodes = nodes_for(segments)
    cycle_s = (end_s - start_s) / max(1.0, segments / (nodes * GPUS) / 3)
    attempt = 0
    for node in range(nodes):
        first = node * GPUS
        for size in chance.choice(_GANGS):
            devices = tuple(range(first, first + size))
            first += size
            stays = list(_gang(chance, devices, start_s, end_s, cycle_s, attempt))
            attempt = max(attempt, max(stay.attempt for stay in stays) + 1)
            yield stays


def _gang(
    chance: random.Random,
    devices: tuple[int, ...],
    start_s: int,
    end_s: int,
    cycle_s: float,
    attempt: int,
) -> Iterator[Stay]:
    now = start_s
    while True:
        steps = [
            ("overhead", 0.01, attempt),
            ("run", chance.uniform(0.1, 1.6), attempt),
            ("free", chance.uniform(0.0, 0.28), -1),
        ]
        if chance.random() < 0.01:
            steps.insert(2, ("unreachable", 0.05, attempt))
        if chance.random() < 0.005:
            steps[-1] = (chance.choice(_OUT_OF_USE), 0.5, -1)
        for bucket, share, holder in steps:
            until = now + max(1, int(share * cycle_s))
            if until >= end_s:
                yield Stay(now, None, devices, "free", -1)
                return
            yield Stay(now, until, devices, bucket, holder)
            now = until
        attempt += 1
