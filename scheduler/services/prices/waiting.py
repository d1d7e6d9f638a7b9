"""Jobs that wait for money: held until it is there, and let go by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction

from scheduler.models import Job
from scheduler.services import transitions
from scheduler.services.holding.following import lock_sets
from scheduler.services.holding.moves import move_held
from scheduler.services.holding.obstacles import obstacles_of
from scheduler.states import JobState, WaitReason


@transaction.atomic
def hold_for(job_id: int, reason: WaitReason, facts: Mapping[str, object], *, now: datetime) -> int:
    """Take a job out of the line for this reason; returns 0 if it is there no more."""
    lock_sets([job_id])
    rows = Job.objects.select_for_update(of=("self",)).select_related("project", "pool")
    locked = rows.filter(pk=job_id, state=JobState.QUEUED).first()
    if locked is None:
        return 0
    return int(
        transitions.move_job(
            locked,
            JobState.HELD,
            now=now,
            kind="held",
            wait_reason=reason,
            wait_facts=dict(facts),
        )
    )


@transaction.atomic
def let_go_of(ids: Sequence[int], reason: WaitReason, *, now: datetime) -> int:
    """Move those that are still held for this reason: all that have an obstacle in common, or none,
    in one go. Returns how many."""
    lock_sets(ids)
    rows = Job.objects.select_for_update(of=("self",)).select_related("pool")
    held = rows.filter(pk__in=ids, state=JobState.HELD, wait_reason=reason)
    jobs = list(held.order_by("pk"))
    found = obstacles_of(jobs, now=now)
    alike: dict[str, list[Job]] = {}
    for job in jobs:
        alike.setdefault(repr(found[job.pk]), []).append(job)
    for group in alike.values():
        move_held(group, found[group[0].pk], now=now)
    return len(jobs)
