"""Held and waiting jobs moved many at a time: with `transitions.py` the only writers of state.

Equal to `move_job` for each; the rows are locked by whoever calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import F

from accounts.models import User
from scheduler import events
from scheduler.models import Job, JobEvent
from scheduler.services.gathering import Step, afterwards
from scheduler.services.history import audit_act_on, tell_of_job
from scheduler.services.holding.following import followers_of, lock_sets
from scheduler.services.holding.obstacles import Obstacle, obstacles_of
from scheduler.services.holding.reasons import word_of
from scheduler.services.inbox.jobs import tell_of_ends
from scheduler.services.rows.adding import add_objects
from scheduler.services.rows.updating import update_rows
from scheduler.services.sharing.keeping.pledging import give_back
from scheduler.states import (
    AUTOMATIC_HOLDS,
    WAITING_JOB_STATES,
    EndReason,
    JobState,
    WaitReason,
)

# Rows of one look at held jobs; SQLite takes 32 766 parameters.
MAX_RECONSIDERED = 1_000
# Who waited for these was not in the line yet.
_NOT_IN_LINE = (WaitReason.DEPENDENCY_WAIT, WaitReason.BEGIN_TIME)


def reconsider(job_ids: Iterable[int], *, now: datetime) -> int:
    """Let held jobs go whose obstacle is gone; returns how many were moved or told another reason.

    1. Lock those that are still held for a reason that passes by itself, the oldest first.
    2. Nothing in the way: QUEUED. Never to be met: CANCELLED. Else the reason that counts now.
    3. The same for those that wait for the cancelled ones, and so on; a chain ends in one call.
    """
    ids, count = sorted(set(job_ids)), 0
    while ids:
        batch, ids = ids[:MAX_RECONSIDERED], ids[MAX_RECONSIDERED:]
        lock_sets(batch)
        held = list(
            Job.objects.select_for_update(of=("self",))
            .filter(pk__in=batch, state=JobState.HELD, wait_reason__in=AUTOMATIC_HOLDS)
            .select_related("pool")
            .order_by("pk")
        )
        found = obstacles_of(held, now=now)
        groups: dict[str, tuple[Obstacle | None, list[Job]]] = {}
        never: dict[int, dict[str, object]] = {}
        for job in held:
            obstacle = found[job.pk]
            if obstacle is not None and obstacle.is_final:
                never[job.pk] = obstacle.facts
            else:
                groups.setdefault(repr(obstacle), (obstacle, []))[1].append(job)
        for obstacle, jobs in groups.values():
            move_held(jobs, obstacle, now=now)
        if never:
            ended = [job for job in held if job.pk in never]
            cancel_each(ended, never, reason=EndReason.DEPENDENCY_NEVER, now=now)
            ids = sorted({*ids, *followers_of(ended)})
        count += len(held)
    return count


def cancel_each(
    jobs: Sequence[Job],
    facts: Mapping[int, dict[str, object]],
    *,
    reason: EndReason,
    now: datetime,
    actor: User | None = None,
) -> None:
    """End waiting jobs, locked by the caller, each with facts of its own, which its history has as
    well; equals `move_job` for each.

    Tasks that each wait for one of another array end by thousands when that is cancelled. Those who
    wait for them are the caller's to let go.
    """
    if not jobs:
        return
    first = facts[jobs[0].pk]
    ids = [job.pk for job in jobs]
    Job.objects.filter(pk__in=ids, state__in=WAITING_JOB_STATES).update(
        state=JobState.CANCELLED,
        version=F("version") + 1,
        wait_reason="",
        wait_facts={},
        end_reason=reason,
        end_facts=first,
        ended_at=now,
    )
    # Those of one array mostly have one reason for all; that is written already.
    own = [(job.pk, (facts[job.pk],)) for job in jobs if facts[job.pk] != first]
    if own:
        update_rows(Job, ("end_facts",), own)
    add_objects(
        JobEvent(
            job=job,
            at=now,
            actor=actor,
            kind="cancelled",
            from_state=job.state,
            to_state=JobState.CANCELLED,
            detail={"waited": job.wait_reason, "reason": reason, **facts[job.pk]},
        )
        for job in jobs
    )
    for job in jobs:
        job.state, job.end_reason, job.end_facts = JobState.CANCELLED, reason, facts[job.pk]
        job.wait_reason, job.wait_facts, job.ended_at = "", {}, now
        job.version += 1
        tell_of_job(job)
    give_back(ids)
    afterwards(Step.TELL, tell_of_ends, jobs, now=now)


def move_held(
    jobs: Sequence[Job],
    obstacle: Obstacle | None,
    *,
    now: datetime,
    actor: User | None = None,
    because: str = "",
) -> bool:
    """Held jobs, locked by the caller, as their common obstacle wants it, and `because` the actor
    said so; False: all as it was.

    Equals `move_job` in a loop, with a statement for all and one for their events.
    """
    if obstacle is not None and not obstacle.is_final:
        jobs = [
            job
            for job in jobs
            if (job.wait_reason, job.wait_facts) != (obstacle.reason, obstacle.facts)
        ]
    if not jobs:
        return False
    kind, to, fields = _what_becomes(obstacle, now)
    locked = Job.objects.filter(pk__in=[job.pk for job in jobs], state=JobState.HELD)
    came_from = {job.pk: job.wait_reason for job in jobs}
    word = word_of(because)
    if to is JobState.QUEUED:
        # Who waited for its own dependencies or begin time has not waited for room.
        locked.filter(wait_reason__in=_NOT_IN_LINE).update(queued_at=now, yielded_from=None)
        events.wake_scheduler_on_commit()
    locked.update(state=to, version=F("version") + 1, **fields)
    add_objects(
        JobEvent(
            job=job,
            at=now,
            actor=actor,
            kind=kind,
            from_state=JobState.HELD,
            to_state=to if to is not JobState.HELD else "",
            detail={"waited": came_from[job.pk], **(obstacle.facts if obstacle else {}), **word},
        )
        for job in jobs
    )
    for job in jobs:
        job.state = to
        tell_of_job(job)
        audit_act_on(job, kind, now=now, actor=actor, detail=word)
    if to is JobState.CANCELLED:
        give_back([job.pk for job in jobs])
        _tell_owners(jobs, fields["end_reason"], fields["end_facts"], now)
    return True


def cancel_waiting(
    jobs: Sequence[Job],
    *,
    reason: EndReason,
    facts: Mapping[str, object],
    now: datetime,
    actor: User | None = None,
) -> None:
    """End waiting jobs, locked by the caller, for one reason; equals `move_job` in a loop. Of the
    facts their history has what somebody said (`because`).

    Those who wait for them are the caller's to let go.
    """
    word = word_of(str(facts.get("because", "")))
    Job.objects.filter(pk__in=[job.pk for job in jobs], state__in=WAITING_JOB_STATES).update(
        state=JobState.CANCELLED,
        version=F("version") + 1,
        wait_reason="",
        wait_facts={},
        end_reason=reason,
        end_facts=dict(facts),
        ended_at=now,
    )
    add_objects(
        JobEvent(
            job=job,
            at=now,
            actor=actor,
            kind="cancelled",
            from_state=job.state,
            to_state=JobState.CANCELLED,
            detail=dict(word),
        )
        for job in jobs
    )
    for job in jobs:
        job.state = JobState.CANCELLED
        tell_of_job(job)
    give_back([job.pk for job in jobs])
    _tell_owners(jobs, reason, facts, now)


def _tell_owners(
    jobs: Sequence[Job], reason: EndReason, facts: Mapping[str, object], now: datetime
) -> None:
    for job in jobs:
        job.end_reason, job.end_facts = reason, dict(facts)
    afterwards(Step.TELL, tell_of_ends, jobs, now=now)


def _what_becomes(obstacle: Obstacle | None, now: datetime) -> tuple[str, JobState, dict[str, Any]]:
    fields: dict[str, Any]
    if obstacle is None:
        fields = {"wait_reason": WaitReason.EVALUATING, "wait_facts": {}, "wait_checked_at": None}
        return "released", JobState.QUEUED, fields
    if obstacle.is_final:
        ends = {"end_reason": EndReason.DEPENDENCY_NEVER, "end_facts": obstacle.facts}
        fields = {"wait_reason": "", "wait_facts": {}, "ended_at": now, **ends}
        return "cancelled", JobState.CANCELLED, fields
    fields = {"wait_reason": obstacle.reason, "wait_facts": obstacle.facts, "wait_checked_at": now}
    return "held", JobState.HELD, fields
