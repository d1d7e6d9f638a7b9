"""What ran in the demonstration and when: drawn from a seed, in order of submit, no overlap.

Pure: the same seed and times give the same plan. Nodes have eight GPUs; a job takes whole nodes or
a part of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random

NODES, GPUS = 8, 8
HOUR_S, DAY_S = 3600, 86_400
WAITING = 4
# Most of the work is of so many days; one job in so many lies in the months before.
RECENT_DAYS, ONE_EARLIER_OF = 30, 8
# nodes x GPUs of each, and how often
_SHAPES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8))
_WEIGHTS = (3, 3, 4, 6, 2)
_ENDS = ("completed", "failed", "cancelled")
_END_WEIGHTS = (84, 11, 5)
_NAMES = ("pretrain", "finetune", "ablation", "sweep", "baseline", "distill", "evaluate")
_TIERS = ("normal", "normal", "normal", "exploratory", "urgent")
# Between two holders a device is cleaned.
_GAP_S = 45


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job; times in seconds since 1970. `start_s` 0: it still waits. `places`: node, devices."""

    number: int
    name: str
    owner: int
    tier: str
    nodes: int
    gpus: int
    submit_s: int
    start_s: int = 0
    end_s: int = 0
    end: str = "completed"
    places: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def limit_s(self) -> int:
        """The time limit its owner asked for: more than it took, in whole hours."""
        return (math.ceil((self.end_s - self.start_s) * 1.4 / HOUR_S) + 1) * HOUR_S


@dataclass(frozen=True, slots=True)
class Outage:
    """A node that an operator drains and takes back."""

    node: int
    start_s: int
    end_s: int


@dataclass
class Plan:
    """Everything that happened."""

    jobs: list[PlannedJob] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)


def draw_plan(seed: int, start_s: int, now_s: int, *, jobs: int, owners: int) -> Plan:
    """So many jobs of so many owners between two moments; the last few still wait.

    Thirty days of full work, and before them a little, so that earlier months have books too.
    """
    random = Random(seed)
    plan = Plan()
    free_at = [[start_s + HOUR_S] * GPUS for _ in range(NODES)]
    outages = [
        (start_s + (now_s - start_s) * part // 100, node) for part, node in ((35, 6), (72, 2))
    ]
    first_s = start_s + 2 * HOUR_S
    recent_s = max(first_s + 1, now_s - RECENT_DAYS * DAY_S)
    moments = sorted(
        random.randrange(first_s, recent_s)
        if number % ONE_EARLIER_OF == 0
        else random.randrange(recent_s, now_s - 600)
        for number in range(jobs)
    )
    for number, submit_s in enumerate(moments):
        while outages and outages[0][0] <= submit_s:
            plan.outages.append(_outage(*outages.pop(0), free_at))
        nodes, gpus = random.choices(_SHAPES, _WEIGHTS)[0]
        hours = min(60.0, max(1.0, random.lognormvariate(2.95, 0.7)))
        name = f"{random.choice(_NAMES)}-{number:03d}"
        job = PlannedJob(
            number=number,
            name=name,
            owner=min(int(random.expovariate(4.0) * owners), owners - 1),
            tier=random.choice(_TIERS),
            nodes=nodes,
            gpus=gpus,
            submit_s=submit_s,
        )
        end = random.choices(_ENDS, _END_WEIGHTS)[0]
        if number < jobs - WAITING:
            job = _start(job, int(hours * HOUR_S), end, free_at, now_s)
        plan.jobs.append(job)
    return plan


def _start(
    job: PlannedJob, took_s: int, end: str, free_at: list[list[int]], now_s: int
) -> PlannedJob:
    """The job on the nodes that are free first; as it is where it cannot end before now."""
    ready = sorted((sorted(cards)[job.gpus - 1], node) for node, cards in enumerate(free_at))
    chosen = ready[: job.nodes]
    start_s = max(job.submit_s + 20, chosen[-1][0] + _GAP_S)
    end_s = min(start_s + took_s, now_s - 120)
    if end_s < start_s + 600:
        return job
    places = []
    for _, node in chosen:
        cards = sorted(range(GPUS), key=lambda card: (free_at[node][card], card))[: job.gpus]
        for card in cards:
            free_at[node][card] = end_s
        places.append((node, tuple(sorted(cards))))
    return PlannedJob(
        job.number,
        job.name,
        job.owner,
        job.tier,
        job.nodes,
        job.gpus,
        job.submit_s,
        start_s,
        end_s,
        end,
        tuple(places),
    )


def _outage(at_s: int, node: int, free_at: list[list[int]]) -> Outage:
    begin_s = max(at_s, *free_at[node]) + _GAP_S
    end_s = begin_s + 30 * HOUR_S
    free_at[node] = [end_s] * GPUS
    return Outage(node, begin_s, end_s)
