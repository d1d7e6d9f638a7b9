"""The plan of a cycle, without the jobs that make planning impossible."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime

import numpy as np

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Snapshot, SnapshotInvalid, flags, ints
from scheduler.services.placing import hold_poisoned

logger = logging.getLogger(__name__)


def plan_or_hold(snapshot: Snapshot, policy: Policy, *, now: datetime) -> Plan:
    """The plan; a job that makes planning impossible is held with a reason and left out, one at
    work goes on and is stopped or resized for nobody.

    Raises what the engine raises if no single job is to blame.
    """
    try:
        return plan_cycle(snapshot, policy)
    except Exception as error:
        poisoned = find_poisoned(snapshot, policy, error)
        rest = _without(snapshot, poisoned)
        if rest is None:
            raise
        logger.exception("jobs %s cannot be planned; those that wait are held", sorted(poisoned))
        hold_poisoned(poisoned, detail=f"it cannot be planned: {error}", now=now)
        return plan_or_hold(rest, policy, now=now)


def _without(snapshot: Snapshot, poisoned: set[int]) -> Snapshot | None:
    """The snapshot with fewer jobs that wait or may be stopped; None if none of them is there."""
    waiting, running = snapshot.waiting, snapshot.running
    stays = ~np.isin(waiting.id, list(poisoned))
    goes_on = flags([]) if running is None else ~np.isin(running.jobs.id, list(poisoned))
    if stays.all() and goes_on.all():
        return None
    if running is not None:
        snapshot = replace(snapshot, running=running.take(goes_on))
    return snapshot.only(ints(np.flatnonzero(stays)))


def find_poisoned(snapshot: Snapshot, policy: Policy, error: Exception) -> set[int]:
    """Ids of the jobs without which planning works: named by the error, else found by halving."""
    if isinstance(error, SnapshotInvalid) and error.jobs:
        return set(error.jobs)
    if not _fails(snapshot.only(ints([])), policy):
        return _halve(snapshot, policy)
    return set()


def _halve(snapshot: Snapshot, policy: Policy) -> set[int]:
    size = len(snapshot.waiting)
    if not _fails(snapshot, policy):
        return set()
    if size == 1:
        return set(snapshot.waiting.id.tolist())
    lower, upper = ints(range(size // 2)), ints(range(size // 2, size))
    return _halve(snapshot.only(lower), policy) | _halve(snapshot.only(upper), policy)


def _fails(snapshot: Snapshot, policy: Policy) -> bool:
    try:
        plan_cycle(snapshot, policy)
    except Exception:
        return True
    return False
