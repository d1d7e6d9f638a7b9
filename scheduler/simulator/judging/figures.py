"""What a replay is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.snapshot import Floats
from scheduler.simulator.judging.bounds import jct_bound_s
from scheduler.simulator.pools import Pools
from scheduler.simulator.replay import Outcome
from scheduler.simulator.workload import Workload

# Jobs of so many GPUs and more are the ones that fragmentation starves.
WIDE_GPUS = 8


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds. Completion (jct) is from submit to end, queue is all time waited, `makespan_s` the
    longest of the pools. `bound_s` is what no schedule can beat, see `bounds.py`.
    """

    jobs: int
    avg_jct_s: float
    avg_queue_s: float
    p99_jct_s: float
    makespan_s: float
    max_wait_s: float
    avg_queue_ge8_s: float
    preemptions: int
    bound_s: float
    cycles: int


def figures_of(runs: Sequence[tuple[Workload, int, Outcome]]) -> Figures:
    """Figures over all jobs of several pools: workload, nodes and outcome of each."""
    jct_s = np.concatenate([outcome.end_s - work.submit_s for work, _, outcome in runs])
    waited_s = np.concatenate([outcome.waited_s for _, _, outcome in runs])
    is_wide = np.concatenate([work.gpus for work, _, _ in runs]) >= WIDE_GPUS
    spans = [float(outcome.end_s.max() - work.submit_s.min()) for work, _, outcome in runs]
    return Figures(
        jobs=len(jct_s),
        avg_jct_s=_mean(jct_s),
        avg_queue_s=_mean(waited_s),
        p99_jct_s=round(float(np.sort(jct_s)[int(0.99 * len(jct_s))]), 1),
        makespan_s=round(max(spans), 1),
        max_wait_s=round(float(waited_s.max()), 1),
        avg_queue_ge8_s=_mean(waited_s[is_wide]),
        preemptions=sum(outcome.preemptions for _, _, outcome in runs),
        bound_s=round(
            sum(_bound_s(work, nodes) * len(work) for work, nodes, _ in runs) / len(jct_s), 1
        ),
        cycles=sum(outcome.cycles for _, _, outcome in runs),
    )


def _bound_s(work: Workload, nodes: int) -> float:
    capacity = int(Pools.of(nodes, work.gpus_per_node).gpus.sum())
    return jct_bound_s(work.submit_s, work.run_s, work.gpus, capacity)


def _mean(values: Floats) -> float:
    return round(float(values.mean()), 1) if len(values) else 0.0
