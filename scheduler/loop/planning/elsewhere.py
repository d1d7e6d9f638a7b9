"""Who of those that wait would start at once in another of the pools that it chooses from.

A job is in one pool at a time, where quotas, order and prices are those of any other. Where it does
not start there, the engine decides the same cycle once more with it in the next of its pools; only
if it would start there, now and on what nobody has to give back first, it goes there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from scheduler.engine.asking import with_places
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Ints, Snapshot, ints
from scheduler.loop.loading import Loaded
from scheduler.loop.making_room import split_starts
from scheduler.services.changing.pools import move_to_pools

logger = logging.getLogger(__name__)

# A look that found nothing is not repeated for so long, unless somebody new waits.
LOOK_EVERY = timedelta(seconds=1)
# Who went to another pool, or was refused there, stays where it is for so long.
STAYS = timedelta(minutes=1)
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
    """Let those go to another of their pools that would start there at once and do not where they
    are; returns who went (ids). No statement where nobody would. Raises LeaseLost."""
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
    taken = {
        device for start in seen.plan.starts for one in start.placements for device in one.devices
    }
    free = _free_devices(snapshot, taken)
    started = {start.job for start in seen.plan.starts}
    placed: dict[int, str] = {}
    for place in range(max(map(len, others.values()))):
        tried = {
            row: names[place]
            for row, names in others.items()
            if place < len(names) and row not in placed and _may_fit(seen, row, names[place], free)
        }
        if not tried:
            continue
        there = {row: seen.loaded.lines[name] for row, name in {**placed, **tried}.items()}
        then = with_places(snapshot, there)
        plan = plan_cycle(then, seen.policy)
        if not started <= {start.job for start in plan.starts}:
            # It would go before one that starts right now, and find less than it was promised.
            continue
        ready, _ = split_starts(plan, then, {})
        given = {
            start.job: {device for one in start.placements for device in one.devices}
            for start in ready
        }
        for row, name in tried.items():
            job = int(snapshot.waiting.id[row])
            if job in given and not given[job] & taken and len(found) < MOST_MOVES:
                found[job] = placed[row] = name
    return found


def _others(seen: Seen, row: int) -> list[str]:
    """Its pools but for the one where it is, the most wanted first."""
    waiting = seen.snapshot.waiting
    here = seen.snapshot.pools[int(waiting.pool[row])]
    named = seen.loaded.choices[int(waiting.id[row])]
    return [name for name in named if name != here and name in seen.loaded.lines]


def _free_devices(snapshot: Snapshot, taken: Collection[int]) -> Ints:
    """By pool how many devices somebody could still get at once."""
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
