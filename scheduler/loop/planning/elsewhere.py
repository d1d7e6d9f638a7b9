"""Who of those that wait has its turn in another of the pools that it chooses from.

A job is in one pool at a time, where quotas, order and prices are those of any other. Where it does
not start there, the engine decides the same cycle once more with it in the next of its pools. It
goes there if it would start, now and on what nobody has to give back first: on what is free, or, if
it has waited for a while, in place of one that starts there in this cycle. That one has started by
then; who came first in both lines is the next one there, else a pool that is always full would be
closed to it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from scheduler.engine.asking import with_places
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan, Start
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Ints, Snapshot, ints
from scheduler.loop.loading import Loaded
from scheduler.loop.making_room import split_starts
from scheduler.services.changing.pools import move_to_pools

logger = logging.getLogger(__name__)

# A look that found nothing is not repeated for so long, unless somebody new waits.
LOOK_EVERY = timedelta(seconds=1)
# Who went to another pool, or was refused there, stays where it is for so long; and nobody goes to
# be the next one there who has not waited as long, so that it risks no more than it has lost.
STAYS = timedelta(minutes=1)
# A head that is to start where it is within so long does not go to be the next one elsewhere: what
# is kept free for it would be lost.
SOON = timedelta(minutes=10)
# So many go in one cycle: each starts in the next one.
MOST_MOVES = 200


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What a cycle saw, in `snapshot` as it was planned, by which policy, and its plan."""

    loaded: Loaded
    snapshot: Snapshot
    policy: Policy
    plan: Plan


@dataclass(slots=True)
class Elsewhere:
    """What this process knows of the looks before. A new lease holder begins without.

    `looked_for`: who was looked at in the last look that moved nobody, at `looked_at`; `tried_at`:
    when somebody was last told to go.
    """

    looked_at: datetime | None = None
    looked_for: frozenset[int] = frozenset()
    tried_at: dict[int, datetime] = field(default_factory=dict)

    def is_due(self, jobs: Collection[int], now: datetime) -> bool:
        """Whether another look may find anything."""
        last = self.looked_at
        rests = last is not None and timedelta(0) <= now - last < LOOK_EVERY
        return not (rests and self.looked_for.issuperset(jobs))

    def staying(self, choosing: Collection[int], now: datetime) -> set[int]:
        """Who went somewhere a moment ago; of those that do not choose any more nothing is kept."""
        self.tried_at = {
            job: at
            for job, at in self.tried_at.items()
            if job in choosing and timedelta(0) <= now - at < STAYS
        }
        return set(self.tried_at)


def go_elsewhere(
    seen: Seen, memory: Elsewhere, *, lease_token: int, now: datetime
) -> Collection[int]:
    """Let those go to another of their pools whose turn it is there, and not where they are;
    returns who went (ids). No statement where nobody would. Raises LeaseLost."""
    if not seen.loaded.choices:
        return ()
    staying = memory.staying(seen.loaded.choices, now)
    rows = _rows(seen, staying)
    jobs = seen.snapshot.waiting.id[rows].tolist()
    if not jobs or not memory.is_due(jobs, now):
        return ()
    try:
        found = _found(seen, rows)
    except Exception:
        # The cycle itself is decided; they stay where they are.
        logger.exception("jobs cannot be planned in other pools of theirs")
        found = {}
    memory.looked_at, memory.looked_for = (None, frozenset()) if found else (now, frozenset(jobs))
    if not found:
        return ()
    memory.tried_at |= dict.fromkeys(found, now)
    return move_to_pools(found, lease_token=lease_token, now=now)


def _rows(seen: Seen, staying: Collection[int]) -> Ints:
    """Rows of `waiting` of those that choose and wait on, but for those that room is made for."""
    waiting = seen.snapshot.waiting
    out = {*staying, *seen.snapshot.claims.job.tolist()}
    choosing = [job for job in seen.loaded.choices if job not in out]
    may = np.isin(waiting.id, choosing) & np.isin(waiting.id, seen.plan.waits.job)
    return ints(np.flatnonzero(may & (waiting.booking == NONE)))


def _found(seen: Seen, rows: Ints) -> dict[int, str]:
    """By job the name of the pool where it would start."""
    snapshot, found = seen.snapshot, dict[int, str]()
    others = {row: _others(seen, row) for row in rows.tolist()}
    patient = _patient(seen)
    taken = {device for devices in _given(seen.plan.starts).values() for device in devices}
    # By whether what starts now counts as free: it does for who would have gone first.
    free = {True: _free_devices(snapshot, ()), False: _free_devices(snapshot, taken)}
    placed: dict[int, str] = {}
    for place in range(max(map(len, others.values()))):
        tried = {
            row: names[place]
            for row, names in others.items()
            if place < len(names)
            and row not in placed
            and _may_fit(seen, row, names[place], free[row in patient])
        }
        if not tried:
            continue
        there = {row: seen.loaded.lines[name] for row, name in {**placed, **tried}.items()}
        then = with_places(snapshot, there)
        plan = plan_cycle(then, seen.policy)
        ready, _ = split_starts(plan, then, {})
        given, pushed = _given(ready), _pushed(seen, plan)
        for row, name in tried.items():
            job = int(snapshot.waiting.id[row])
            is_next = name in pushed or not taken.isdisjoint(given.get(job, ()))
            if job in given and (row in patient or not is_next) and len(found) < MOST_MOVES:
                found[job] = placed[row] = name
    return found


def _given(starts: Iterable[Start]) -> dict[int, set[int]]:
    """By job the devices (ids) that it gets."""
    return {
        start.job: {device for one in start.placements for device in one.devices}
        for start in starts
    }


def _pushed(seen: Seen, then: Plan) -> set[str]:
    """The pools of who starts now and would not by the plan `then`: somebody comes before it."""
    waiting = seen.snapshot.waiting
    lost = {start.job for start in seen.plan.starts} - {start.job for start in then.starts}
    its = np.isin(waiting.id, list(lost))
    return {seen.snapshot.pools[pool] for pool in waiting.pool[its].tolist()}


def _patient(seen: Seen) -> set[int]:
    """Rows of `waiting` of those that have waited as long as they would stay, but for heads."""
    snapshot, waiting = seen.snapshot, seen.snapshot.waiting
    soon_s = snapshot.now_s + SOON.total_seconds()
    heads = [kept.job for kept in seen.plan.reservations if kept.start_s <= soon_s]
    have_waited = snapshot.now_s - waiting.queued_at_s >= STAYS.total_seconds()
    return set(np.flatnonzero(have_waited & ~np.isin(waiting.id, heads)).tolist())


def _others(seen: Seen, row: int) -> list[str]:
    """Its pools but for the one where it is, the most wanted first."""
    waiting = seen.snapshot.waiting
    here = seen.snapshot.pools[int(waiting.pool[row])]
    named = seen.loaded.choices[int(waiting.id[row])]
    return [name for name in named if name != here and name in seen.loaded.lines]


def _free_devices(snapshot: Snapshot, taken: Collection[int]) -> Ints:
    """By pool how many devices, but for those, nobody held when this was decided."""
    devices, nodes = snapshot.devices, snapshot.nodes
    is_free = devices.is_healthy & nodes.takes_work[devices.node]
    is_free &= devices.free_milli(snapshot.slices) > 0
    is_free &= ~np.isin(devices.id, list(taken))
    return ints(np.bincount(nodes.pool[devices.node[is_free]], minlength=len(snapshot.pools)))


def _may_fit(seen: Seen, row: int, name: str, free: Ints) -> bool:
    """Whether it is worth a plan: the pool has as many devices left as it needs at least."""
    waiting, (pool, queue) = seen.snapshot.waiting, seen.loaded.lines[name]
    least = int(waiting.nodes_min[row]) or int(waiting.nodes[row])
    has_room = int(waiting.gpus_per_node[row]) * least <= int(free[pool])
    return has_room and not bool(seen.snapshot.queue_is_paused[queue])
