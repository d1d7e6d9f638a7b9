"""Whom a change would cost or give time: all forecasts with and without it, by deciding twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from scheduler.engine.cycle import Known, plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import (
    NONE,
    Floats,
    Ints,
    Running,
    Snapshot,
    Waiting,
    flags,
    floats,
    ints,
)

# Forecasts are rounded to the minute: less is no delay.
LEAST_DELAY_S = 60


@dataclass(frozen=True, slots=True)
class Start:
    """When a waiting job starts at the latest if all run to their limits; None: nobody knows."""

    job: int
    was_s: float | None
    then_s: float | None

    @property
    def delay_s(self) -> float:
        """How much later; infinite if nobody knows any more when, negative for sooner."""
        if self.was_s is None:
            return 0.0 if self.then_s is None else -np.inf
        return (np.inf if self.then_s is None else self.then_s) - self.was_s


@dataclass(frozen=True, slots=True)
class Impact:
    """The job's own start, None if it does not wait, those whom the change delays, and those whom
    it lets start sooner; who is stopped for it at once, and who goes on with how many nodes."""

    own: Start | None
    delayed: tuple[Start, ...]
    sooner: tuple[Start, ...] = ()
    stopped: tuple[int, ...] = ()
    resized: tuple[tuple[int, int], ...] = ()


def impact_of(before: Snapshot, after: Snapshot, policy: Policy, job: int) -> Impact:
    """Compares two decisions on the same cluster; who loses or gains most comes first."""
    # Both decide on one cluster and the same accounts, most of whose turns no change touches.
    known = Known()
    plan, then = plan_cycle(before, policy, known), plan_cycle(after, policy, known)
    jobs, was = _starts(before, plan)
    then_s = _looked_up(*_starts(after, then), jobs)
    resized = {(one.job, one.nodes) for one in plan.resizes}
    is_told = (was != then_s) & ~(np.isnan(was) & np.isnan(then_s)) | (jobs == job)
    found = [
        Start(int(jobs[row]), _known(was[row]), _known(then_s[row]))
        for row in np.flatnonzero(is_told).tolist()
    ]
    own = next((one for one in found if one.job == job), None)
    delayed = [one for one in found if one.job != job and one.delay_s >= LEAST_DELAY_S]
    sooner = [one for one in found if one.job != job and one.delay_s <= -LEAST_DELAY_S]
    return Impact(
        own,
        tuple(sorted(delayed, key=lambda one: (-one.delay_s, one.job))),
        tuple(sorted(sooner, key=lambda one: (one.delay_s, one.job))),
        tuple(sorted({one.job for one in then.stops} - {one.job for one in plan.stops})),
        tuple(sorted({(one.job, one.nodes) for one in then.resizes} - resized)),
    )


def with_limit(snapshot: Snapshot, job: int, more_s: int) -> Snapshot:
    """The cluster as it is if the job's time limit were so much longer."""
    held, tokens = snapshot.held, snapshot.tokens

    def longer(jobs: Waiting) -> Waiting:
        add = np.where(jobs.id == job, more_s, 0)
        left_s = floats(jobs.remaining_s + add)
        return replace(jobs, time_limit_s=ints(jobs.time_limit_s + add), remaining_s=left_s)

    return replace(
        _with_jobs(snapshot, longer),
        held=replace(held, until_s=held.until_s + np.where(held.job == job, more_s, 0)),
        tokens=replace(tokens, until_s=tokens.until_s + np.where(tokens.job == job, more_s, 0)),
    )


def with_most(
    snapshot: Snapshot, job: int, nodes: int, frees_s: float, lasts_s: float = 0.0
) -> Snapshot:
    """The cluster as it is if the job had so many nodes at most, 0 for none at all.

    What it holds beyond is free at `frees_s`, as good as after its grace. Then it goes on with the
    others, for `lasts_s` at most.
    """
    held = snapshot.held
    mine = np.flatnonzero(held.job == job)
    rows, kept = mine[nodes:], mine[:nodes]
    until_s = held.until_s.copy()
    until_s[rows] = np.minimum(until_s[rows], frees_s)
    again_s = frees_s + lasts_s if len(rows) else 0.0
    until_s[kept] = np.maximum(until_s[kept], again_s)
    snapshot = replace(snapshot, held=replace(held, until_s=until_s))
    if not nodes:
        # It is being stopped already.
        running = snapshot.running
        stays = None if running is None else running.take(flags(running.jobs.id != job))
        return replace(snapshot, running=stays)

    def smaller(jobs: Waiting) -> Waiting:
        mine, is_least = jobs.id == job, jobs.nodes_min >= nodes
        return replace(
            jobs,
            nodes=ints(np.where(mine, nodes, jobs.nodes)),
            remaining_s=floats(
                np.where(
                    mine, np.maximum(jobs.remaining_s, again_s - snapshot.now_s), jobs.remaining_s
                )
            ),
            nodes_min=ints(np.where(mine & is_least, 0, jobs.nodes_min)),
            sizes=ints(np.where(mine & is_least, NONE, jobs.sizes)),
        )

    return _with_jobs(snapshot, smaller)


def with_cost(snapshot: Snapshot, job: int, most_cost: float) -> Snapshot:
    """The cluster as it is if so much were left of the waiting job's highest price, infinite for
    none."""
    waiting = snapshot.waiting
    most = np.where(waiting.id == job, most_cost, waiting.most_cost)
    return replace(snapshot, waiting=replace(waiting, most_cost=floats(most)))


def with_tier(snapshot: Snapshot, job: int, tier: int) -> Snapshot:
    """The cluster as it is if the waiting job were of this tier."""
    waiting = snapshot.waiting
    tiers = np.where(waiting.id == job, tier, waiting.tier)
    return replace(snapshot, waiting=replace(waiting, tier=tiers))


def with_places(snapshot: Snapshot, places: Mapping[int, tuple[int, int]]) -> Snapshot:
    """The cluster as it is if these waiting jobs (rows) were in other pools and queues (rows)."""
    waiting = snapshot.waiting
    pool, queue, avoid = waiting.pool.copy(), waiting.queue.copy(), waiting.avoid_node.copy()
    for row, place in places.items():
        pool[row], queue[row] = place
        # A node of the old pool to stay away from means nothing in the new one.
        avoid[row] = NONE
    return replace(snapshot, waiting=replace(waiting, pool=pool, queue=queue, avoid_node=avoid))


def _with_jobs(snapshot: Snapshot, change: Callable[[Waiting], Waiting]) -> Snapshot:
    """The change to the job wherever it is, among those that wait or those that run."""
    running: Running | None = snapshot.running
    if running is not None:
        running = replace(running, jobs=change(running.jobs))
    return replace(snapshot, waiting=change(snapshot.waiting), running=running)


def _starts(snapshot: Snapshot, plan: Plan) -> tuple[Ints, Floats]:
    """The waiting jobs by number, and when each starts at the latest; NaN where nobody knows."""
    # Who is moved starts as well, and does not wait.
    waiting = set(snapshot.waiting.id.tolist())
    starts = ints([start.job for start in plan.starts if start.job in waiting])
    jobs = np.concatenate([plan.waits.job, starts])
    at_s = np.concatenate([plan.waits.forecast.p90_s, np.full(len(starts), snapshot.now_s)])
    order = np.argsort(jobs, kind="stable")
    return ints(jobs[order]), floats(at_s[order])


def _looked_up(known: Ints, at_s: Floats, jobs: Ints) -> Floats:
    """By job what `at_s` says of it; NaN for those that are not among the `known`, which grow."""
    if not len(known):
        return floats(np.full(len(jobs), np.nan))
    rows = np.minimum(np.searchsorted(known, jobs), len(known) - 1)
    return floats(np.where(known[rows] == jobs, at_s[rows], np.nan))


def _known(at_s: float) -> float | None:
    return None if isnan(at_s) else float(at_s)
