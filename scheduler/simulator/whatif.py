"""The same jobs in two clusters: what would change with another quota, weight, size or policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import NONE, Floats, Ints, ints
from scheduler.simulator.events import ClusterEvent
from scheduler.simulator.guard import Guard
from scheduler.simulator.replay import Outcome, Replay, no_limit, replay
from scheduler.simulator.teams import Teams
from scheduler.simulator.workload import Workload

# A change of a team's p90 by less than this share of it is no news.
NEWS_SHARE = 0.10
NEWS_S = 60.0
# Jobs that no quota lets start are taken out; so often that is tried.
_TRIES = 5
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
        of_job = setting.teams.most()[workload.teams()]
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


@dataclass(frozen=True, slots=True)
class TeamWaits:
    """Seconds, one figure for each setting; `is_news`: the p90 moves by more than a tenth."""

    name: str
    jobs: int
    p50_s: tuple[float, ...]
    p90_s: tuple[float, ...]
    is_news: bool


@dataclass(frozen=True, slots=True)
class Impact:
    """One figure for each setting, the first being how it is. `left_out`: jobs that some setting
    never lets start; they count in none. `measures` are of all jobs together.
    """

    jobs: int
    left_out: int
    teams: tuple[TeamWaits, ...]
    preemptions: tuple[int, ...]
    utilisation: tuple[float, ...]
    measures: tuple[Measures, ...] = ()


def impact_of(
    workload: Workload,
    settings: Sequence[Setting],
    tell: Callable[[int], None] = lambda _done: None,
    price: float | None = None,
) -> Impact:
    """Replay the same jobs in each setting; `tell` hears how many settings are through. `price` is
    that of a GPU-hour."""
    rows = ints(np.arange(len(workload)))
    for setting in settings:
        rows = ints(rows[_fits(workload.take(rows), setting)])
    for _ in range(_TRIES):
        outcomes: list[Outcome] = []
        jobs = workload.take(rows)
        stuck = ints([])
        for setting in settings:
            found, stuck = _run(jobs, setting)
            if found is None:
                break
            outcomes.append(found)
            tell(len(outcomes))
        if not len(stuck):
            return _impact(jobs, settings, outcomes, len(workload) - len(jobs), price)
        rows = ints(np.delete(rows, stuck))
    return _impact(workload.take(ints([])), settings, [], len(workload), price)


def _fits(jobs: Workload, setting: Setting) -> Ints:
    capacity = setting.nodes * jobs.gpus_per_node
    most = np.full(len(jobs), capacity)
    if setting.teams is not None and len(jobs):
        of_job = setting.teams.most()[jobs.teams()]
        most = np.where(of_job == NONE, capacity, np.minimum(of_job, capacity))
    return ints(np.flatnonzero(jobs.gpus <= most))


def _run(jobs: Workload, setting: Setting) -> tuple[Outcome | None, Ints]:
    """What became of the jobs, or the rows of those that never started."""
    if not len(jobs):
        return _nothing(), ints([])
    run = Replay(jobs, setting.nodes, setting.policy, teams=setting.teams, events=setting.events)
    while run.next_s() < np.inf:
        run.step()
    stuck = ints(np.flatnonzero(run.world.is_waiting))
    return (None, stuck) if len(stuck) else (run.outcome(), stuck)


def _nothing() -> Outcome:
    none: Floats = np.zeros(0)
    return Outcome(none, none, none, 0, 0, 0)


def _impact(
    jobs: Workload,
    settings: Sequence[Setting],
    outcomes: Sequence[Outcome],
    left_out: int,
    price: float | None,
) -> Impact:
    team = jobs.teams()
    teams = settings[0].teams
    names = teams.names if teams else ("all",)
    found = []
    for row, name in enumerate(names):
        mine = np.flatnonzero(team == row)
        if not len(mine):
            continue
        p50 = tuple(_quantile(one.waited_s[mine], 0.5) for one in outcomes)
        p90 = tuple(_quantile(one.waited_s[mine], 0.9) for one in outcomes)
        found.append(TeamWaits(name, len(mine), p50, p90, _is_news(p90)))
    return Impact(
        jobs=len(jobs),
        left_out=left_out,
        teams=tuple(found),
        preemptions=tuple(one.preemptions for one in outcomes),
        utilisation=tuple(
            _utilisation(jobs, one, setting)
            for one, setting in zip(outcomes, settings, strict=False)
        ),
        measures=tuple(
            _measures(jobs, one, setting.nodes, left_out, price)
            for one, setting in zip(outcomes, settings, strict=False)
            if len(jobs)
        ),
    )


def _is_news(p90_s: Sequence[float]) -> bool:
    if not p90_s:
        return False
    base = p90_s[0]
    return any(abs(one - base) > max(NEWS_S, NEWS_SHARE * base) for one in p90_s[1:])


def _utilisation(jobs: Workload, outcome: Outcome, setting: Setting) -> float:
    if not len(jobs):
        return 0.0
    span_s = float(outcome.end_s.max() - jobs.submit_s.min())
    gpu_s = float((outcome.held_s * jobs.gpus).sum())
    return round(gpu_s / (span_s * setting.nodes * jobs.gpus_per_node), 4) if span_s else 0.0
