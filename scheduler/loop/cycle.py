"""How a decision becomes fact."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.plan import Plan, Reservation
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Snapshot, SnapshotInvalid, flags, ints
from scheduler.loop.committing import (
    WaitMemory,
    commit_bookings,
    commit_starts,
    commit_waits,
    planned_limits,
)
from scheduler.loop.lease import Lease, acquire_lease, keep_lease, release_lease, renew_lease
from scheduler.loop.loading import Kept, Loaded, load_snapshot
from scheduler.loop.making_room import commit_rooms, split_starts
from scheduler.loop.memories import Memories
from scheduler.loop.reaping import reap
from scheduler.models import CycleRecord
from scheduler.services.errors import LeaseLost
from scheduler.services.placing import hold_poisoned
from scheduler.services.sharing.past_use import count_past_use
from scheduler.services.sharing.policies import policy_in_force

logger = logging.getLogger(__name__)

# What time brings about is looked for once a second, however often a wake calls for a decision.
REAP_EVERY = timedelta(seconds=1)
RECORD_EVERY = timedelta(seconds=1)
COUNT_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class CycleOutcome:
    """What one cycle did; `has_lease` is false when another scheduler is at work."""

    has_lease: bool
    waiting: int = 0
    started: int = 0
    stopped: int = 0
    dropped: int = 0
    reaped: int = 0
    reasons: int = 0
    duration_ms: float = 0.0
    load_ms: float = 0.0
    plan_ms: float = 0.0
    commit_ms: float = 0.0
    statements: int = 0


class _Watch:
    """How long each phase took, and how many statements went to the database meanwhile."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self.statements = 0

    def count(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        """Wraps the execution of a statement."""
        self.statements += 1
        return execute(sql, params, many, context)

    def lap_ms(self) -> float:
        since, self._since = self._since, time.perf_counter()
        return (self._since - since) * 1000


@dataclass(slots=True)
class Scheduler:
    """The loop's state between cycles: who it is, its lease, what it wrote and planned last.

    `kept`: what heads were promised. A new lease holder starts without; it plans them anew.
    `rows`: what the last load was made of. `has_decided`: the last cycle came to its end; the lease
    is lengthened only then, so that pages can say how old it is what they show.
    Without a `policy` of its own it follows the rule in force.
    """

    holder: str
    policy: Policy | None = None
    lease: Lease | None = None
    has_decided: bool = False
    memory: WaitMemory = field(default_factory=WaitMemory)
    memories: Memories = field(default_factory=Memories)
    reaped_at: datetime | None = None
    counted_at: datetime | None = None
    records: list[CycleRecord] = field(default_factory=list)
    recorded_at: datetime | None = None
    kept: tuple[Reservation, ...] = ()
    rows: Kept = field(default_factory=Kept)

    def run_cycle(self, now: datetime) -> CycleOutcome:
        """One round. An exception leaves the lease to run out; the next round tries again.

        1. Lease: take it or keep it; without it, do nothing.
        2. Reap: what time alone has brought about.
        3. Load: the database as a snapshot.
        4. Plan: the engine decides.
        5. Commit: starts first, then who has to stop for whom, both fenced by the lease's token;
           then the reasons that changed.
        6. Report: what happened and how long it took, if anything did.
        """
        watch = _Watch()
        with connection.execute_wrapper(watch.count):
            outcome = self._run_cycle(now, watch)
        self.has_decided = outcome.has_lease
        return outcome

    def _run_cycle(self, now: datetime, watch: _Watch) -> CycleOutcome:
        began = time.perf_counter()
        if not self._keep_lease(now):
            return CycleOutcome(has_lease=False)
        assert self.lease is not None
        reaped = self._reap(now)
        watch.lap_ms()
        policy = self._policy(now)
        loaded = self._load(policy, now)
        if loaded.owners.is_late:
            # Once at a period's end: the next one cannot wait for the second to be over.
            reaped += self._reap(now, at_once=True)
            loaded = self._load(policy, now)
        load_ms = watch.lap_ms()
        snapshot = self.memories.add_to(loaded.snapshot, policy, now=now)
        snapshot = self.memory.without_resting(with_promises(snapshot, self.kept), loaded, now)
        plan = plan_or_hold(snapshot, policy, now=now)
        self.kept = plan.reservations
        plan_ms = watch.lap_ms()
        # What the snapshot saw given back may have been so after the cycle began: nobody may hold a
        # device from before the last one let go.
        at = now + timedelta(seconds=time.perf_counter() - began)
        try:
            limits_s = planned_limits(plan.starts, loaded.snapshot)
            starts, rooms = split_starts(plan, loaded.snapshot, limits_s)
            started, dropped = commit_starts(
                starts, plan.standings, limits_s, self.memory, lease_token=self.lease.token, now=at
            )
            stopped = commit_rooms(rooms, lease_token=self.lease.token, now=now)
        except LeaseLost:
            self._forget_lease()
            return CycleOutcome(has_lease=False)
        commit_bookings(plan, loaded.snapshot)
        reasons = commit_waits(plan, loaded, self.memory, now=now)
        outcome = CycleOutcome(
            has_lease=True,
            waiting=len(plan.waits),
            started=started,
            stopped=stopped,
            dropped=dropped,
            reaped=reaped,
            reasons=reasons,
            duration_ms=(time.perf_counter() - began) * 1000,
            load_ms=load_ms,
            plan_ms=plan_ms,
            commit_ms=watch.lap_ms(),
            statements=watch.statements,
        )
        self._record(outcome, now)
        return outcome

    def release(self, now: datetime) -> None:
        """Let the next scheduler in at once."""
        if self.lease is not None:
            release_lease(self.lease, now=now)
            self._forget_lease()

    def _load(self, policy: Policy, now: datetime) -> Loaded:
        loaded = load_snapshot(now, moves=policy.moves, half_life_s=policy.memory_s, kept=self.rows)
        return loaded.to_decide(policy, now=now)

    def _reap(self, now: datetime, *, at_once: bool = False) -> int:
        if not (at_once or _is_due(self.reaped_at, REAP_EVERY, now)):
            return 0
        self.reaped_at = now
        return reap(now=now)

    def _policy(self, now: datetime) -> Policy:
        """The policy of this cycle; past use is counted once a minute if it looks at that."""
        policy = self.policy or policy_in_force()
        if policy.memory_s is not None and _is_due(self.counted_at, COUNT_EVERY, now):
            self.counted_at = now
            count_past_use(now=now, half_life_s=policy.memory_s)
        return policy

    def _record(self, outcome: CycleOutcome, now: datetime) -> None:
        """Keep what happened, and write what was kept once a second."""
        if outcome.started or outcome.stopped or outcome.dropped or outcome.reasons:
            self.records.append(
                CycleRecord(
                    at=now,
                    duration_ms=outcome.duration_ms,
                    load_ms=outcome.load_ms,
                    plan_ms=outcome.plan_ms,
                    commit_ms=outcome.commit_ms,
                    statements=outcome.statements,
                    reasons=outcome.reasons,
                    reaped=outcome.reaped,
                    waiting=outcome.waiting,
                    started=outcome.started,
                    stopped=outcome.stopped,
                    dropped=outcome.dropped,
                )
            )
        if self.records and _is_due(self.recorded_at, RECORD_EVERY, now):
            self.recorded_at = now
            written, self.records = self.records, []
            CycleRecord.objects.bulk_create(written)

    def _keep_lease(self, now: datetime) -> bool:
        if self.lease is not None:
            has_decided, self.has_decided = self.has_decided, False
            held = self.lease
            self.lease = renew_lease(held, now=now) if has_decided else keep_lease(held)
            if self.lease is None:
                logger.warning("%s has lost the scheduler lease", self.holder)
                self._forget_lease()
        if self.lease is None:
            self.lease = acquire_lease(self.holder, now=now)
            if self.lease is not None:
                logger.info("%s schedules now, token %s", self.holder, self.lease.token)
        return self.lease is not None

    def _forget_lease(self) -> None:
        self.lease = None
        # Another scheduler may write reasons meanwhile; what this one remembers is void.
        self.memory = WaitMemory()
        self.kept = ()


def _is_due(last: datetime | None, every: timedelta, now: datetime) -> bool:
    """Whether `every` has passed; a clock that went back does not put it off."""
    return last is None or not timedelta(0) <= now - last < every


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
