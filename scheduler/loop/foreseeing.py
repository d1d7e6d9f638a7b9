"""When jobs start and end, as the engine foresees it of the cluster with one job more.

The job is loaded like every other that waits, only that it is no row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import numpy as np
from django.db.models import Max

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.snapshot import Snapshot
from scheduler.loop.loading import lent_rows, load_snapshot
from scheduler.loop.loading.together import read_together
from scheduler.loop.making_room import split_starts
from scheduler.loop.memories import Memories
from scheduler.models import Attempt
from scheduler.services.preempting.ordering import Room
from scheduler.services.sharing.policies import policy_in_force
from scheduler.services.submitting.opening import Opening
from scheduler.states import LIVE_ATTEMPT_STATES, wait_sentence

# No job has it: numbers count from one.
_FIRST = 2**53
# So many tasks of an array are laid out, as many as the engine lays out one by one.
MOST_TASKS = 400

# p50 and p90; None if nobody knows.
Span: TypeAlias = tuple[datetime | None, datetime | None]
_UNKNOWN: Span = (None, None)


@dataclass(frozen=True, slots=True)
class Start:
    """p50 and p90 of a start, or why nobody knows; `last_p90_at`: of the last task of an array."""

    p50_at: datetime | None = None
    p90_at: datetime | None = None
    why: str = ""
    last_p90_at: datetime | None = None

    def not_before(self, p50_at: datetime, p90_at: datetime, why: str) -> Start:
        """The same where nobody knows; else each figure no earlier than this."""
        if self.p50_at is None or self.p90_at is None:
            return self
        last = self.last_p90_at and max(self.last_p90_at, p90_at)
        return Start(max(self.p50_at, p50_at), max(self.p90_at, p90_at), why, last)


@dataclass(frozen=True, slots=True, eq=False)
class Starts:
    """What was decided with the job as one more that waits. `mine` is its own start."""

    snapshot: Snapshot
    plan: Plan
    mine: Start

    def start_of(self, job: int) -> Span:
        """Of another job that waits or runs."""
        now = _moment(self.snapshot.now_s)
        if any(start.job == job for start in self.plan.starts) or job in self.snapshot.held.job:
            return now, now
        return _foreseen(self.plan, job)

    def end_of(self, job: int) -> Span:
        """Of another job that waits or runs: p50 by what jobs usually run of what they declare."""
        snapshot = self.snapshot
        held = np.flatnonzero(snapshot.held.job == job)
        if len(held):
            until_s = float(snapshot.held.until_s[held].max())
            share = self._share(int(snapshot.nodes.pool[snapshot.held.node[held[0]]]))
            left_s = max(0.0, until_s - snapshot.now_s)
            return _moment(snapshot.now_s + left_s * share), _moment(snapshot.now_s + left_s)
        p50_at, p90_at = self.start_of(job)
        rows = np.flatnonzero(snapshot.waiting.id == job)
        if p50_at is None or p90_at is None or not len(rows):
            return _UNKNOWN
        run_s = float(snapshot.waiting.remaining_s[rows[0]])
        share = self._share(int(snapshot.waiting.pool[rows[0]]))
        return (
            _moment(p50_at.timestamp() + run_s * share),
            _moment(p90_at.timestamp() + run_s),
        )

    def _share(self, pool: int) -> float:
        shares = self.snapshot.run_share
        return 1.0 if shares is None else min(1.0, float(shares[pool]))


def starts_of(opening: Opening, now: datetime) -> Starts:
    """Decide one cycle with a job that was checked, without those that are cancelled for it."""
    drafts = opening.drafts(_FIRST, MOST_TASKS)
    with read_together(now), lent_rows() as kept:
        policy = policy_in_force()
        loaded = load_snapshot(
            now, moves=policy.moves, half_life_s=policy.memory_s, also=drafts, kept=kept
        )
    loaded = loaded.to_decide(policy, now=now)
    snapshot = Memories().add_to(loaded.snapshot, policy, now=now)
    if leaving := [job.pk for job in opening.leaving]:
        stays = ~np.isin(snapshot.waiting.id, leaving)
        snapshot = replace(snapshot, waiting=snapshot.waiting.take(stays))
    plan = plan_cycle(snapshot, policy)
    ready, rooms = split_starts(plan, snapshot, {})
    soon: dict[int, Span] = {start.job: (now, now) for start in ready}
    soon |= {room.job_id: (now, _cleared(room, now)) for room in rooms}
    numbers = [job.pk for job in drafts]
    spans = [soon[pk] if pk in soon else _foreseen(plan, pk) for pk in numbers]
    known = [(p50_at, p90_at) for p50_at, p90_at in spans if p50_at and p90_at]
    if not known:
        return Starts(snapshot, plan, Start(why=_why(plan, numbers[0])))
    array = opening.spec.array
    is_all = array is not None and len(known) == len(array.indexes)
    last = max(p90_at for _, p90_at in known) if is_all else None
    p50_at, p90_at = min(known)
    why = "Others stop for it first." if numbers[0] in {room.job_id for room in rooms} else ""
    return Starts(snapshot, plan, Start(p50_at, p90_at, why, last))


def _cleared(room: Room, now: datetime) -> datetime:
    """When those who have to stop for it have stopped at the latest, by the time they are given."""
    asked = [victim.job_id for victim in room.victims]
    live = Attempt.objects.filter(job__in=asked, state__in=LIVE_ATTEMPT_STATES)
    grace_s = live.aggregate(most=Max("stop_grace_s"))["most"] or 0
    return now + timedelta(seconds=grace_s)


def _foreseen(plan: Plan, job: int) -> Span:
    """Of a job that waits for room."""
    at = np.flatnonzero(plan.waits.job == job)
    if not len(at):
        return _UNKNOWN
    p50_s, p90_s = plan.waits.forecast.of(int(at[0]))
    if np.isnan(p50_s) or np.isnan(p90_s):
        return _UNKNOWN
    return _moment(p50_s), _moment(p90_s)


def _why(plan: Plan, job: int) -> str:
    """Why it waits, and why nobody can say how long."""
    wait = plan.waits[int(np.flatnonzero(plan.waits.job == job)[0])]
    return f"{wait_sentence(wait.reason, wait.facts)} {wait.facts.get('start_why', '')}".strip()


def _moment(epoch_s: float) -> datetime:
    return datetime.fromtimestamp(epoch_s, UTC)
