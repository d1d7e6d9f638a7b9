"""The same jobs in two clusters: what would change with another quota, weight, size or policy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np

from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import NONE, Floats, Ints, ints
from scheduler.simulator.events import ClusterEvent
from scheduler.simulator.guard import Guard
from scheduler.simulator.replay import Outcome, no_limit, replay
from scheduler.simulator.teams import Teams
from scheduler.simulator.workload import Workload

_NO_PATIENCE = Policy(head_patience_s=0, backfill_slack_s=0)


@dataclass(frozen=True, slots=True)
class Setting:
    """A cluster and its rules. Shortest first without preemption is guarded against starvation."""

    nodes: int
    policy: Policy = field(default_factory=lambda: _NO_PATIENCE)
    teams: Teams | None = None
    events: tuple[ClusterEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one run. `left_out` jobs are larger than the pool, or than their team may hold.

    `utilisation`: GPU time held over GPU time there from the first submit to the last end. `jain`:
    of the teams' mean shares of run time in time to completion (Jain, Chiu, Hawe, A quantitative
    measure of fairness, DEC-TR-301, 1984); 1 is equal. `gpu_hours` were held, lost work included;
    `cost` is that at `price`, None without one.
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
    cost: float | None


def measure(workload: Workload, setting: Setting, price: float | None = None) -> Measures:
    """Run the jobs in this setting. Raises ReplayStuck if some can never start in it."""
    rows = _may_ever_start(workload, setting)
    jobs = workload.take(rows)
    if not len(jobs):
        return Measures(0, len(workload), 0.0, 0.0, 0.0, 0, 0, 1.0, 0.0, None)
    policy = setting.policy
    is_guarded = (
        policy.order is Order.SHORTEST
        and not policy.preempts
        and bool(np.isfinite(jobs.declared_s).all())
    )
    limit = Guard(jobs, setting.nodes) if is_guarded else no_limit
    outcome = replay(
        jobs, setting.nodes, policy, limit=limit, teams=setting.teams, events=setting.events
    )
    return _measures(jobs, outcome, setting.nodes, len(workload) - len(jobs), price)


def compare(
    workload: Workload, base: Setting, changed: Setting, price: float | None = None
) -> dict[str, dict[str, float | None]]:
    """Measures by name in both settings, and the change from the first to the second."""
    before, after = (
        asdict(measure(workload, base, price)),
        asdict(measure(workload, changed, price)),
    )
    change = {
        name: None if value is None or after[name] is None else round(after[name] - value, 4)
        for name, value in before.items()
    }
    return {"base": before, "changed": after, "change": change}


def _may_ever_start(workload: Workload, setting: Setting) -> Ints:
    most = np.full(len(workload), setting.nodes * workload.gpus_per_node)
    if setting.teams is not None:
        maximum = np.array(setting.teams.maximum, dtype=np.int64)
        of_job = maximum[workload.teams()]
        most = np.where(of_job == NONE, most, np.minimum(of_job, most))
    return ints(np.flatnonzero(workload.gpus <= most))


def _measures(
    jobs: Workload, outcome: Outcome, nodes: int, left_out: int, price: float | None
) -> Measures:
    span_s = float(outcome.end_s.max() - jobs.submit_s.min())
    gpu_s = float((outcome.held_s * jobs.gpus).sum())
    gpu_hours = gpu_s / 3600
    return Measures(
        jobs=len(jobs),
        left_out=left_out,
        wait_p50_s=_quantile(outcome.waited_s, 0.5),
        wait_p90_s=_quantile(outcome.waited_s, 0.9),
        utilisation=round(gpu_s / (span_s * nodes * jobs.gpus_per_node), 4),
        preemptions=outcome.preemptions,
        failures=outcome.failures,
        jain=_jain(jobs, outcome),
        gpu_hours=round(gpu_hours, 2),
        cost=None if price is None else round(gpu_hours * price, 2),
    )


def _jain(jobs: Workload, outcome: Outcome) -> float:
    share = jobs.run_s / np.maximum(outcome.end_s - jobs.submit_s, jobs.run_s)
    team = jobs.teams()
    means = np.array([share[team == one].mean() for one in np.unique(team)])
    return round(float(means.sum() ** 2 / (len(means) * (means**2).sum())), 4)


def _quantile(values: Floats, share: float) -> float:
    return round(float(np.quantile(values, share)), 1)
