"""The same jobs in two clusters: what would change with another quota, weight, size or policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Ints, floats, ints
from scheduler.simulator.events import ClusterEvent
from scheduler.simulator.guard import Guards
from scheduler.simulator.judging.measures import (
    Measures,
    Prices,
    measures_by_pool,
    measures_of,
    quantile,
)
from scheduler.simulator.pools import ByPool, Pools
from scheduler.simulator.replay import Outcome, Replay, ReplayStuck
from scheduler.simulator.teams import Teams
from scheduler.simulator.traces.writing import Results
from scheduler.simulator.workload import Workload

# A change of a team's p90 by less than this share of it is no news.
NEWS_SHARE = 0.10
NEWS_S = 60.0
# Jobs that no quota lets start are taken out; so often that is tried.
_TRIES = 5
_NO_PATIENCE = Policy(head_patience_s=0, backfill_slack_s=0)


@dataclass(frozen=True, slots=True)
class Setting:
    """A cluster and its rules; `nodes` are by pool, and `names` say how the pools are called."""

    nodes: ByPool
    policy: Policy = field(default_factory=lambda: _NO_PATIENCE)
    teams: Teams | None = None
    events: tuple[ClusterEvent, ...] = ()
    names: tuple[str, ...] = ()

    def pools(self, gpus_per_node: ByPool = 1) -> Pools:
        """Its pools, with nodes of so many GPUs."""
        return Pools.of(self.nodes, gpus_per_node, self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Jobs that ran in a setting: `rows` of a workload, and what became of them."""

    rows: Ints
    jobs: Workload
    outcome: Outcome
    pools: Pools

    def results(self, size: int) -> Results:
        """For all jobs of a workload; who was left out has not run."""
        found = Results.none(size)
        found.put(self.rows, self.outcome.results())
        return found


def run_in(workload: Workload, setting: Setting) -> Run:
    """Run the jobs in this setting. Raises ReplayStuck if some can never start in it."""
    rows = _fits(workload, setting)
    jobs = workload.take(rows)
    pools = setting.pools(workload.gpus_per_node)
    outcome, stuck = _run(jobs, setting)
    if outcome is None:
        raise ReplayStuck(f"{len(stuck)} jobs were never started")
    return Run(rows, jobs, outcome, pools)


def measure(workload: Workload, setting: Setting, prices: Prices = None) -> Measures:
    """Of the jobs in this setting. Raises ReplayStuck if some can never start in it."""
    run = run_in(workload, setting)
    return measures_of(run.jobs, run.outcome, run.pools, len(workload) - len(run.jobs), prices)


def compare(before: Run, after: Run, size: int, prices: Prices = None) -> dict[str, Any]:
    """Measures by name of two runs of a workload of this size, and the change from the first to the
    second; of several pools each on its own as well.
    """
    ends = [
        measures_of(run.jobs, run.outcome, run.pools, size - len(run.jobs), prices)
        for run in (before, after)
    ]
    found: dict[str, Any] = _side_by_side(*ends)
    names = before.pools.names
    if len(names) > 1:
        pools = [
            measures_by_pool(run.jobs, run.outcome, run.pools, prices) for run in (before, after)
        ]
        found["pools"] = {
            name: _side_by_side(*pair) for name, *pair in zip(names, *pools, strict=True)
        }
    return found


def _side_by_side(before: Measures, after: Measures) -> dict[str, dict[str, float | None]]:
    base, changed = asdict(before), asdict(after)
    change = {
        name: None if value is None or changed[name] is None else round(changed[name] - value, 4)
        for name, value in base.items()
    }
    return {"base": base, "changed": changed, "change": change}


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
    never lets start; they count in none. `measures` are of all jobs together, `by_pool` of each
    pool, where there are several. `runs` say what became of each job.
    """

    jobs: int
    left_out: int
    teams: tuple[TeamWaits, ...]
    preemptions: tuple[int, ...]
    utilisation: tuple[float, ...]
    measures: tuple[Measures, ...] = ()
    by_pool: tuple[tuple[Measures, ...], ...] = ()
    runs: tuple[Run, ...] = ()


def impact_of(
    workload: Workload,
    settings: Sequence[Setting],
    tell: Callable[[int], None] = lambda _done: None,
    prices: Prices = None,
) -> Impact:
    """Replay the same jobs in each setting; `tell` hears how many settings are through, with each
    event of the next one anew. `prices` are of a GPU-hour by pool."""
    rows = ints(np.arange(len(workload)))
    for setting in settings:
        rows = ints(rows[_fits(workload.take(rows), setting)])
    for _ in range(_TRIES):
        outcomes: list[Outcome] = []
        jobs = workload.take(rows)
        stuck = ints([])
        for setting in settings:
            found, stuck = _run(jobs, setting, partial(tell, len(outcomes)))
            if found is None:
                break
            outcomes.append(found)
            tell(len(outcomes))
        if not len(stuck):
            runs = [
                Run(rows, jobs, outcome, setting.pools(jobs.gpus_per_node))
                for outcome, setting in zip(outcomes, settings, strict=True)
            ]
            return _impact(runs, settings[0].teams, len(workload) - len(jobs), prices)
        rows = ints(np.delete(rows, stuck))
    return Impact(0, len(workload), (), (), ())


def _fits(jobs: Workload, setting: Setting) -> Ints:
    """Who is no larger than its pool, and than its team may hold."""
    if not len(jobs):
        return ints([])
    pools = setting.pools(jobs.gpus_per_node)
    most = pools.gpus[jobs.pools()]
    if setting.teams is not None:
        for row in range(len(pools)):
            of_job = setting.teams.most(row)[jobs.teams()]
            is_capped = (jobs.pools() == row) & (of_job != NONE)
            most = np.where(is_capped, np.minimum(of_job, most), most)
    return ints(np.flatnonzero((jobs.gpus <= most) & jobs.fit(ints(pools.nodes))))


def _run(
    jobs: Workload,
    setting: Setting,
    goes_on: Callable[[], None] = lambda: None,
) -> tuple[Outcome | None, Ints]:
    """What became of the jobs, or the rows of those that never started. As in a live pool, shortest
    first without preemption is guarded against starvation."""
    if not len(jobs):
        return _nothing(), ints([])
    pools = setting.pools(jobs.gpus_per_node)
    run = Replay(
        jobs,
        setting.nodes,
        setting.policy,
        names=pools.names,
        limit=Guards(jobs, pools, setting.policy),
        teams=setting.teams,
        events=setting.events,
    )
    while run.next_s() < np.inf:
        run.step()
        goes_on()
    stuck = ints(np.flatnonzero(run.world.is_waiting))
    return (None, stuck) if len(stuck) else (run.outcome(), stuck)


def _nothing() -> Outcome:
    none, count = floats([]), ints([])
    return Outcome(none, none, none, none, none, count, count, 0)


def _impact(runs: Sequence[Run], teams: Teams | None, left_out: int, prices: Prices) -> Impact:
    jobs, outcomes = runs[0].jobs, [run.outcome for run in runs]
    measures = tuple(
        measures_of(jobs, run.outcome, run.pools, left_out, prices) for run in runs if len(jobs)
    )
    several = [run for run in runs if len(run.pools) > 1 and len(jobs)]
    by_pool = [measures_by_pool(jobs, run.outcome, run.pools, prices) for run in several]
    return Impact(
        jobs=len(jobs),
        left_out=left_out,
        teams=tuple(_teams(jobs, teams, outcomes)),
        preemptions=tuple(one.preemptions for one in outcomes),
        utilisation=tuple(one.utilisation for one in measures) or (0.0,) * len(outcomes),
        measures=measures,
        by_pool=tuple(zip(*by_pool, strict=True)),
        runs=tuple(runs),
    )


def _teams(jobs: Workload, teams: Teams | None, outcomes: Sequence[Outcome]) -> Sequence[TeamWaits]:
    found = []
    for row, name in enumerate(teams.names if teams else ("all",)):
        mine = np.flatnonzero(jobs.teams() == row)
        if not len(mine):
            continue
        p50 = tuple(quantile(one.waited_s[mine], 0.5) for one in outcomes)
        p90 = tuple(quantile(one.waited_s[mine], 0.9) for one in outcomes)
        found.append(TeamWaits(name, len(mine), p50, p90, _is_news(p90)))
    return found


def _is_news(p90_s: Sequence[float]) -> bool:
    if not p90_s:
        return False
    base = p90_s[0]
    return any(abs(one - base) > max(NEWS_S, NEWS_SHARE * base) for one in p90_s[1:])
