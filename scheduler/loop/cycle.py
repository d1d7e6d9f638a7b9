"""How a decision becomes fact."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from scheduler.engine.keeping.promises import with_promises
from scheduler.engine.plan import Reservation
from scheduler.engine.policy import Policy
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
from scheduler.loop.planning.elsewhere import Elsewhere, Seen, go_elsewhere
from scheduler.loop.planning.poisoned import plan_or_hold
from scheduler.loop.reaping import reap
from scheduler.models import CycleRecord
from scheduler.services.errors import LeaseLost
from scheduler.services.sharing.past_use import count_past_use
from scheduler.services.sharing.policies import policy_in_force
from scheduler.tallies import Tally, tally

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
    moved: int = 0
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
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    def run_cycle(self, now: datetime) -> CycleOutcome:
        """One round. An exception leaves the lease to run out; the next round tries again.

        1. Lease: take it or keep it; without it, do nothing.
        2. Reap: what time alone has brought about.
        3. Load: the database as a snapshot.
        4. Plan: the engine decides.
        5. Commit: starts first, then who has to stop for whom, and who goes to another of its
           pools, fenced by the lease's token; then the reasons that changed.
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
            started, dropped, stopped, moved = self._commit(
                Seen(loaded, snapshot, policy, plan), now=now, at=at
            )
        except LeaseLost:
            tally(Tally.STALE_SCHEDULER)
            self._forget_lease()
            return CycleOutcome(has_lease=False)
        commit_bookings(plan, loaded.snapshot)
        reasons = commit_waits(plan, loaded, self.memory, now=now, but=moved)
        outcome = CycleOutcome(
            has_lease=True,
            waiting=len(plan.waits),
            started=started,
            stopped=stopped,
            dropped=dropped,
            reaped=reaped,
            reasons=reasons,
            moved=len(moved),
            duration_ms=(time.perf_counter() - began) * 1000,
            load_ms=load_ms,
            plan_ms=plan_ms,
            commit_ms=watch.lap_ms(),
            statements=watch.statements,
        )
        self._record(outcome, now)
        return outcome

    def _commit(
        self, seen: Seen, *, now: datetime, at: datetime
    ) -> tuple[int, int, int, Collection[int]]:
        """How many started, were dropped and have to stop, and who went to another pool; raises
        LeaseLost. `at`: when starts hold what they get."""
        assert self.lease is not None
        plan, whole, token = seen.plan, seen.loaded.snapshot, self.lease.token
        limits_s = planned_limits(plan.starts, whole)
        starts, rooms = split_starts(plan, whole, limits_s)
        started, dropped = commit_starts(
            starts, plan.standings, limits_s, self.memory, lease_token=token, now=at
        )
        stopped = commit_rooms(rooms, lease_token=token, now=now)
        moved = go_elsewhere(seen, self.elsewhere, lease_token=token, now=now)
        return started, dropped, stopped, moved

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
