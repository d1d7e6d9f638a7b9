"""Which of one's own waiting jobs goes first.

A job that lets another go first is treated as if it had been submitted just after that one: its
`queued_at` is put off, `yielded_from` keeps what it was. A time is never put forward beyond its
own, so nobody else's job is ever passed, whatever the policy makes of ages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from accounts.statements import asked_together
from scheduler import events
from scheduler.engine.policy import Order
from scheduler.models import Job, Pool
from scheduler.selectors.sharing.limits import NEWEST_RULE, POOL_RULES
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.gathering import gathering
from scheduler.services.history import record_event, tell_of_job
from scheduler.services.sharing.policies import policy_of_pool
from scheduler.states import JobState

# Of one tier of a pool; who has more of them waiting uses tiers, or submits later.
MAX_TURNS = 1000
_STEP = timedelta(microseconds=1)
_AGE_COUNTS = (Order.FAIR, Order.FIFO)
_COUNTS = {
    Order.SHORTEST: "how long they still run",
    Order.LAS: "how little they have run",
}


class Turn(StrEnum):
    """Where a job goes among its owner's others."""

    FIRST = "first"
    EARLIER = "earlier"
    LATER = "later"


def why_no_turns(pool: Pool) -> str:
    """Why no job lets another go first in this pool now; empty where they may. One query."""
    with asked_together([(NEWEST_RULE, ()), (POOL_RULES, ())]):
        order = policy_of_pool(pool).order
    if order in _AGE_COUNTS:
        return ""
    return (
        f"Pool {pool.name} starts jobs by {_COUNTS[order]}, not by their age, so none of yours "
        "can let another go first. Hold the one that should wait."
    )


@transaction.atomic
def turn_job(*, actor: User, job: Job, turn: Turn, now: datetime | None = None) -> int:
    """Move a waiting job among its owner's jobs of the same pool and tier; how many changed.

    Raises Forbidden, Conflict or Invalid.
    """
    _check_owner(actor, job)
    line = _line(actor, job.pool, job.tier)
    at = next((row for row, one in enumerate(line) if one.pk == job.pk), None)
    if at is None:
        raise Conflict(f"Job #{job.pk} does not wait for its turn any more.")
    moved = line.pop(at)
    line.insert({Turn.FIRST: 0, Turn.EARLIER: max(0, at - 1), Turn.LATER: at + 1}[turn], moved)
    return _take_turns(actor, line, now or timezone.now())


@transaction.atomic
def order_jobs(*, actor: User, pool: Pool, jobs: Sequence[Job], now: datetime | None = None) -> int:
    """Let these go first among the actor's waiting jobs of their tier, in this order; how many
    changed. Without any, all of the actor's jobs in the pool go in the order of submit again.

    Raises Forbidden, Conflict or Invalid.
    """
    now = now or timezone.now()
    if not jobs:
        waiting = _mine(actor, pool).exclude(yielded_from=None)
        tiers = set(waiting.values_list("tier", flat=True))
        return sum(
            _take_turns(actor, sorted(line, key=_by_submit), now)
            for _, line in sorted(_lines(actor, pool, tiers).items())
        )
    for job in jobs:
        _check_owner(actor, job)
    if len({job.pk for job in jobs}) < len(jobs):
        raise Invalid("A job is named twice; name each once.", field="jobs")
    if len({job.tier for job in jobs}) > 1:
        raise Invalid("These are jobs of several tiers; order one tier at a time.", field="jobs")
    line = {job.pk: job for job in _line(actor, pool, jobs[0].tier)}
    gone = [job.pk for job in jobs if job.pk not in line]
    if gone:
        raise Conflict(f"Job #{gone[0]} does not wait for its turn in pool {pool.name}.")
    first = [line.pop(job.pk) for job in jobs]
    return _take_turns(actor, [*first, *line.values()], now)


def _check_owner(actor: User, job: Job) -> None:
    if job.owner_id != actor.pk:
        raise Forbidden("Only its owner says which of their jobs goes first.")


def _mine(actor: User, pool: Pool) -> QuerySet[Job]:
    return Job.objects.filter(owner=actor, pool=pool, state=JobState.QUEUED)


def _line(actor: User, pool: Pool, tier: int) -> list[Job]:
    """The actor's waiting jobs of a tier in the order they have now, locked."""
    return _lines(actor, pool, {tier})[tier]


def _lines(actor: User, pool: Pool, tiers: Collection[int]) -> dict[int, list[Job]]:
    """The same of several tiers, in one go."""
    if refusal := why_no_turns(pool):
        raise Conflict(refusal)
    waiting = (
        _mine(actor, pool)
        .filter(tier__in=tiers)
        .select_for_update(of=("self",))
        .select_related("pool")
        # As everybody locks jobs. So many that a tier with too many shows.
        .order_by("pk")[: (MAX_TURNS + 1) * len(tiers)]
    )
    lines: dict[int, list[Job]] = {tier: [] for tier in tiers}
    for job in sorted(waiting, key=_by_age):
        lines[job.tier].append(job)
    if any(len(line) > MAX_TURNS for line in lines.values()):
        raise Conflict(
            f"More than {MAX_TURNS} of your jobs wait in this tier; cancel or hold some."
        )
    return lines


def _by_submit(job: Job) -> tuple[datetime, int]:
    return job.yielded_from or job.queued_at, job.pk


def _by_age(job: Job) -> tuple[datetime, int]:
    return job.queued_at, job.pk


def _take_turns(actor: User, line: Sequence[Job], now: datetime) -> int:
    """Give each the time of its own submit, or if that is later one just after who goes before."""
    changed: list[Job] = []
    before: Job | None = None
    with gathering():
        for job in line:
            own, _ = _by_submit(job)
            ahead = before if before is not None and _by_age(before) > (own, job.pk) else None
            when = own if ahead is None else ahead.queued_at + _STEP
            if when != job.queued_at:
                job.queued_at, job.yielded_from = when, None if ahead is None else own
                changed.append(job)
                detail = {} if ahead is None else {"behind_job": ahead.pk}
                record_event(job, "turn_changed", now=now, actor=actor, detail=detail)
            before = job
    Job.objects.bulk_update(changed, ["queued_at", "yielded_from"], batch_size=200)
    for job in changed:
        tell_of_job(job)
    if changed:
        events.wake_scheduler_on_commit()
    return len(changed)
