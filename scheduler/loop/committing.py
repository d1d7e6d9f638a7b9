"""Plan to rows: starts first and guarded, then the reasons that changed."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

import numpy as np
from django.db import DatabaseError

from scheduler.engine.explaining.standing import Standing
from scheduler.engine.plan import Plan, PlannedPlacement, SlotKind, Waits
from scheduler.engine.plan import Start as PlannedStart
from scheduler.engine.snapshot import Snapshot, ints
from scheduler.loop.loading import Loaded
from scheduler.services.bookings import note_nodes
from scheduler.services.errors import LeaseLost
from scheduler.services.placing import Start, hold_poisoned, start_attempts
from scheduler.services.preempting.overtaken import why_dropped
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sharing.guard import Refusals
from scheduler.services.waits import record_waits
from scheduler.states import WaitReason

logger = logging.getLogger(__name__)

# Starts of one transaction; more would keep other writers waiting.
MAX_STARTS = 200
# Reasons are written once a second and not all at once, so that they never hold up a start: the
# changed reasons at the front of the queue first, and of the changed figures the oldest.
WAITS_EVERY = timedelta(seconds=1)
MAX_REASONS = 300
MAX_FACTS = 100
# The first time a picture may just have been a moment old.
FIRST_REST, LONGEST_REST = timedelta(seconds=5), timedelta(minutes=5)
# Cycles in a row that planned a start which came to nothing. Whom that befalls each time is no
# victim of an old picture: engine and services see something differently.
IN_A_ROW = 3
_NOTHING: Mapping[int, Standing] = {}
_UNPLANNED: Mapping[int, int] = {}


@dataclass(slots=True)
class WaitMemory:
    """What this process wrote last for each waiting job, so that unchanged facts cost nothing.

    Empty at first: then everything is offered once, and `record_waits` compares with the rows.
    `resting`: jobs whose start a limit refused that the engine had not seen, how often, and until
    when they are left out of plans: longer from time to time, so that nobody is stopped for them
    again and again. Who asks for something else, or pays more, does not rest any longer.
    `dropped`: jobs whose start the last cycle planned in vain, and how many in a row did.
    """

    facts: dict[int, tuple[object, ...]] = field(default_factory=dict)
    written_at: datetime | None = None
    resting: dict[int, tuple[int, datetime]] = field(default_factory=dict)
    dropped: dict[int, int] = field(default_factory=dict)

    def without_resting(self, snapshot: Snapshot, loaded: Loaded, now: datetime) -> Snapshot:
        """The snapshot, made of `loaded`, without those that rest now; who waits no more, or has
        a row that says it is to be looked at anew, is forgotten."""
        if not self.resting:
            return snapshot
        there = loaded.snapshot.waiting.id
        rows = np.flatnonzero(np.isin(there, list(self.resting))).tolist()
        rests = [row for row in rows if loaded.wait_reasons[row] != WaitReason.EVALUATING]
        self.resting = {job: self.resting[job] for job in there[rests].tolist()}
        rest = [job for job, (_, until) in self.resting.items() if now < until]
        return snapshot.only(ints(np.flatnonzero(~np.isin(snapshot.waiting.id, rest))))

    def rest(self, refused: Refusals, now: datetime) -> None:
        """Tell these jobs what they wait for, and leave them out for a while."""
        for job in refused:
            self._leave_out(job, now)
        if refused:
            waits = [(job, error.reason, error.facts) for job, error in refused.items()]
            record_waits(waits, now=now)

    def drop(self, starts: Sequence[Start], now: datetime) -> None:
        """These came to nothing, though no limit refused them: who is among them cycle after cycle
        is told so, as is the log, and rests."""
        before = self.dropped
        self.dropped = {start.job_id: 1 + before.get(start.job_id, 0) for start in starts}
        often = [start for start in starts if self.dropped[start.job_id] >= IN_A_ROW]
        if not often:
            return
        waits = []
        for job, why in why_dropped(often).items():
            until = self._leave_out(job, now)
            logger.warning("job %s is planned in vain until %s: %s", job, until, why)
            facts = {"why": why, "until": until.strftime("%H:%M:%S UTC")}
            waits.append((job, WaitReason.START_DROPPED, facts))
        record_waits(waits, now=now)

    def _leave_out(self, job: int, now: datetime) -> datetime:
        """Until when."""
        times = 1 + self.resting.get(job, (0, now))[0]
        until = now + min(LONGEST_REST, FIRST_REST * 2 ** min(times - 1, 16))
        self.resting[job] = times, until
        self.facts.pop(job, None)
        return until

    def is_due(self, now: datetime) -> bool:
        """Whether the last writing is long enough ago."""
        return self.written_at is None or not (timedelta(0) <= now - self.written_at < WAITS_EVERY)


def commit_starts(
    starts: Sequence[PlannedStart],
    standings: Mapping[int, Standing] = _NOTHING,
    limits_s: Mapping[int, int] = _UNPLANNED,
    memory: WaitMemory | None = None,
    *,
    lease_token: int,
    now: datetime,
) -> tuple[int, int]:
    """Make the starts fact, each whole or not; returns how many, and how many were dropped.

    `limits_s`: for how long they were planned, by job. Whom a limit keeps from it rests, as does
    who is dropped again and again.
    If a job's own row makes a batch impossible, its starts are committed one by one and that job
    is held with a reason, so that it cannot stop the others again. Raises LeaseLost.
    """
    orders = [_order(start, standings.get(start.job), limits_s.get(start.job)) for start in starts]
    started: list[int] = []
    refused = Refusals()
    for first in range(0, len(orders), MAX_STARTS):
        batch = orders[first : first + MAX_STARTS]
        try:
            started += start_attempts(batch, lease_token=lease_token, now=now, refused=refused)
        except (LeaseLost, DatabaseError):
            raise
        except Exception:
            logger.exception("a start cannot be committed; trying them one by one")
            for order in batch:
                started += _start_alone(order, refused, lease_token, now)
    if memory is not None:
        memory.rest(refused, now)
        done = {*started, *refused}
        memory.drop([order for order in orders if order.job_id not in done], now)
    return len(started), len(starts) - len(started)


def _start_alone(order: Start, refused: Refusals, lease_token: int, now: datetime) -> list[int]:
    try:
        return start_attempts([order], lease_token=lease_token, now=now, refused=refused)
    except (LeaseLost, DatabaseError):
        raise
    except Exception as error:
        logger.exception("job %s cannot be started and is held", order.job_id)
        hold_poisoned([order.job_id], detail=f"it could not be started: {error!r}", now=now)
        return []


def _order(start: PlannedStart, standing: Standing | None, limit_s: int | None) -> Start:
    stood = asdict(standing) if standing else {}
    return Start(start.job, placed_on(start), stood, start.why_here, limit_s)


def planned_limits(starts: Sequence[PlannedStart], snapshot: Snapshot) -> dict[int, int]:
    """The time limits, in seconds, that these starts of waiting jobs were planned with, by job."""
    if not starts:
        return {}
    waiting = snapshot.waiting
    rows = np.flatnonzero(np.isin(waiting.id, [start.job for start in starts]))
    limits_s = waiting.time_limit_s[rows].tolist()
    return dict(zip(waiting.id[rows].tolist(), limits_s, strict=True))


def placed_on(start: PlannedStart) -> tuple[PlacedOn, ...]:
    """A planned start's placements as the services take them."""
    return placements_of(start.placements)


def placements_of(planned: Sequence[PlannedPlacement]) -> tuple[PlacedOn, ...]:
    """Planned placements as the services take them."""
    return tuple(PlacedOn(p.node, p.rank, p.devices, p.cpus, p.memory_mib) for p in planned)


def commit_waits(
    plan: Plan,
    loaded: Loaded,
    memory: WaitMemory,
    *,
    now: datetime,
    but: Collection[int] = (),
) -> int:
    """Write the reasons that changed and some of the changed figures; returns how many rows.

    What is passed over is written in later cycles. Nothing is written within `WAITS_EVERY` of
    the last time, nor of the jobs in `but`, which wait for something else since the plan.
    """
    if not memory.is_due(now):
        return 0
    shown = dict(zip(loaded.snapshot.waiting.id.tolist(), loaded.wait_reasons, strict=True))
    known = memory.facts
    for gone in known.keys() - shown.keys():
        del known[gone]
    new_reasons, new_facts = [], []
    for row, (job, key, reason) in enumerate(_keys(plan.waits)):
        if job in but:
            continue
        if shown[job] != reason:
            new_reasons.append((row, job, key))
        elif known.get(job) != key:
            new_facts.append((row, job, key))
    age = {job: rank for rank, job in enumerate(known)}
    new_facts.sort(key=lambda change: age.get(change[1], -1))
    changes = new_reasons[:MAX_REASONS] + new_facts[:MAX_FACTS]
    if not changes:
        return 0
    waits = [plan.waits[row] for row, _, _ in changes]
    memory.written_at = now
    written = record_waits([(w.job, w.reason, w.facts) for w in waits], now=now)
    for _, job, key in changes:
        known.pop(job, None)
        known[job] = key
    return written


def _keys(waits: Waits) -> list[tuple[int, tuple[object, ...], WaitReason]]:
    """Per wait: the job, a value that changes when its facts do, and the reason."""
    shared = [(v.reason, tuple(v.facts.items())) for v in waits.verdicts]
    # NaN differs from itself; a start that nobody knows has to stay the same.
    p50_s, p90_s = (np.nan_to_num(column).tolist() for column in waits.forecast.columns)
    rows = zip(
        waits.job.tolist(), waits.verdict.tolist(), waits.ahead.tolist(), p50_s, p90_s, strict=True
    )
    return [
        (job, (*shared[verdict], ahead, soon_s, late_s), shared[verdict][0])
        for job, verdict, ahead, soon_s, late_s in rows
    ]


def commit_bookings(plan: Plan, snapshot: Snapshot) -> int:
    """Write where bookings are that have moved; returns how many. Nothing else depends on it."""
    if not len(snapshot.bookings.id):
        return 0
    before: dict[int, set[int]] = {pk: set() for pk in snapshot.bookings.id.tolist()}
    rows = snapshot.booked_nodes
    for booking, node in zip(rows.booking.tolist(), rows.node.tolist(), strict=True):
        before[int(snapshot.bookings.id[booking])].add(int(snapshot.nodes.id[node]))
    moved = {
        slot.owner: list(slot.nodes)
        for slot in plan.timeline
        if slot.kind is SlotKind.BOOKING and set(slot.nodes) != before[slot.owner]
    }
    return note_nodes(moved) if moved else 0
