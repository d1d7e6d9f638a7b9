"""What two settings are compared by."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from scheduler.engine.snapshot import Floats, ints
from scheduler.simulator.pools import Pools
from scheduler.simulator.replay import Outcome
from scheduler.simulator.workload import Workload

# Of a GPU-hour by pool, None where nobody knows; or nobody asks.
Prices = tuple[float | None, ...] | None


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one run. `left_out` jobs are larger than the pool, or than their team may hold.

    `utilisation`: GPU time held over GPU time there from the first submit to the last end. `jain`:
    of the teams' mean shares of run time in time to completion (Jain, Chiu, Hawe, A quantitative
    measure of fairness, DEC-TR-301, 1984); 1 is equal. `gpu_hours` were held, `lost_gpu_hours` of
    them for work that a stop or a lost node undid; `cost` is what was held at the pools' prices,
    None without them.
    """

    jobs: int
    left_out: int
    wait_p50_s: float
    wait_p90_s: float
    utilisation: float
    preemptions: int
    failures: int
    jain: float
    gpu_hours: float
    lost_gpu_hours: float
    cost: float | None


NOTHING = Measures(0, 0, 0.0, 0.0, 0.0, 0, 0, 1.0, 0.0, 0.0, None)


def measures_of(
    jobs: Workload, outcome: Outcome, pools: Pools, left_out: int = 0, prices: Prices = None
) -> Measures:
    """Of all jobs together."""
    if not len(jobs):
        return Measures(**{**asdict(NOTHING), "left_out": left_out})
    span_s = float(outcome.end_s.max() - jobs.submit_s.min())
    held = outcome.held_s * jobs.gpus / 3600
    there = span_s / 3600 * float(pools.gpus.sum())
    return Measures(
        jobs=len(jobs),
        left_out=left_out,
        wait_p50_s=quantile(outcome.waited_s, 0.5),
        wait_p90_s=quantile(outcome.waited_s, 0.9),
        utilisation=round(float(held.sum()) / there, 4) if there else 0.0,
        preemptions=outcome.preemptions,
        failures=outcome.failures,
        jain=_jain(jobs, outcome),
        gpu_hours=round(float(held.sum()), 6),
        lost_gpu_hours=round(float((outcome.lost_s * jobs.gpus).sum()) / 3600, 6),
        cost=_cost(jobs, held, prices),
    )


def measures_by_pool(
    jobs: Workload, outcome: Outcome, pools: Pools, prices: Prices = None
) -> tuple[Measures, ...]:
    """Of each pool, as if there were no other."""
    found = []
    for row, name in enumerate(pools.names):
        mine = ints(np.flatnonzero(jobs.pools() == row))
        own = Pools((name,), (pools.nodes[row],), (pools.gpus_per_node[row],))
        found.append(measures_of(jobs.take(mine), outcome.take(mine), own, prices=prices))
    return tuple(found)


def quantile(values: Floats, share: float) -> float:
    """Of waits, in seconds to a tenth."""
    return round(float(np.quantile(values, share)), 1)


def _cost(jobs: Workload, held: Floats, prices: Prices) -> float | None:
    if prices is None:
        return None
    total = 0.0
    for pool in np.unique(jobs.pools()).tolist():
        price = prices[pool]
        if price is None:
            return None
        total += float(held[jobs.pools() == pool].sum()) * price
    return round(total, 2)


def _jain(jobs: Workload, outcome: Outcome) -> float:
    share = jobs.run_s / np.maximum(outcome.end_s - jobs.submit_s, jobs.run_s)
    team = jobs.teams()
    means = np.array([share[team == one].mean() for one in np.unique(team)])
    return round(float(means.sum() ** 2 / (len(means) * (means**2).sum())), 4)
