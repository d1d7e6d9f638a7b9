"""Whom a change would cost or give time: all forecasts with and without it, by deciding twice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan

import numpy as np

from scheduler.engine.cycle import Known, plan_cycle
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Floats, Ints, Snapshot, floats, ints

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
    it lets start sooner."""

    own: Start | None
    delayed: tuple[Start, ...]
    sooner: tuple[Start, ...] = ()


def impact_of(before: Snapshot, after: Snapshot, policy: Policy, job: int) -> Impact:
    """Compares two decisions on the same cluster; who loses or gains most comes first."""
    # Both decide on one cluster and the same accounts, most of whose turns no change touches.
    known = Known()
    jobs, was = _starts(before, policy, known)
    then_s = _looked_up(*_starts(after, policy, known), jobs)
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
    )


def with_limit(snapshot: Snapshot, job: int, more_s: int) -> Snapshot:
    """The cluster as it is if the job's time limit were so much longer."""
    held, tokens, waiting = snapshot.held, snapshot.tokens, snapshot.waiting
    add = np.where(waiting.id == job, more_s, 0)
    return replace(
        snapshot,
        held=replace(held, until_s=held.until_s + np.where(held.job == job, more_s, 0)),
        tokens=replace(tokens, until_s=tokens.until_s + np.where(tokens.job == job, more_s, 0)),
        waiting=replace(
            waiting, time_limit_s=waiting.time_limit_s + add, remaining_s=waiting.remaining_s + add
        ),
    )


def with_most(snapshot: Snapshot, job: int, nodes: int, frees_s: float) -> Snapshot:
    """The cluster as it is if the job had so many nodes at most, 0 for none at all.

    What it holds beyond is free at `frees_s`, as good as after its grace.
    """
    held, waiting = snapshot.held, snapshot.waiting
    rows = np.flatnonzero(held.job == job)[nodes:]
    until_s = held.until_s.copy()
    until_s[rows] = np.minimum(until_s[rows], frees_s)
    snapshot = replace(snapshot, held=replace(held, until_s=until_s))
    mine = waiting.id == job
    if not nodes or not mine.any():
        return snapshot
    is_least = waiting.nodes_min >= nodes
    return replace(
        snapshot,
        waiting=replace(
            waiting,
            nodes=np.where(mine, nodes, waiting.nodes),
            nodes_min=np.where(mine & is_least, 0, waiting.nodes_min),
            sizes=np.where(mine & is_least, NONE, waiting.sizes),
        ),
    )


def with_tier(snapshot: Snapshot, job: int, tier: int) -> Snapshot:
    """The cluster as it is if the waiting job were of this tier."""
    waiting = snapshot.waiting
    tiers = np.where(waiting.id == job, tier, waiting.tier)
    return replace(snapshot, waiting=replace(waiting, tier=tiers))


def _starts(snapshot: Snapshot, policy: Policy, known: Known) -> tuple[Ints, Floats]:
    """The waiting jobs by number, and when each starts at the latest; NaN where nobody knows."""
    plan = plan_cycle(snapshot, policy, known)
    starts = ints([start.job for start in plan.starts])
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
