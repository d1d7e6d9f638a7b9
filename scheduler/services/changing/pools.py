"""A job that chooses from several pools goes to another one of them, where it starts at once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F

from scheduler import events
from scheduler.models import Job, Queue
from scheduler.services.errors import LeaseLost
from scheduler.services.gathering import gathering
from scheduler.services.history import record_event, tell_of_job
from scheduler.services.rows.locking import keep_lease
from scheduler.services.sharing.keeping.pledging import (
    PledgeRefused,
    give_back,
    pledge,
    pledging,
)
from scheduler.states import JobState, WaitReason

logger = logging.getLogger(__name__)


def move_to_pools(places: Mapping[int, str], *, lease_token: int, now: datetime) -> list[int]:
    """Let waiting jobs (ids) wait in the pools named, in their old places; returns who went.

    1. Check that the lease is still ours, inside the transaction; raises LeaseLost.
    2. Who waits no more, or does not choose that pool any more, stays.
    3. What they had committed at their submit they commit anew, at the prices there.
    4. Where a budget refuses that, they go one by one, and only who is refused stays.
    """
    try:
        return _move(places, lease_token=lease_token, now=now)
    except PledgeRefused as refused:
        if len(places) == 1:
            logger.info("job %s stays in its pool: %s", *places, refused)
            return []
    found: list[int] = []
    for job, name in places.items():
        found += move_to_pools({job: name}, lease_token=lease_token, now=now)
    return found


@transaction.atomic
def _move(places: Mapping[int, str], *, lease_token: int, now: datetime) -> list[int]:
    if not keep_lease(lease_token):
        raise LeaseLost(f"lease token {lease_token} is no longer valid")
    queues: dict[str, Queue] = {}
    named = Queue.objects.select_related("pool").filter(pool__name__in=set(places.values()))
    for queue in named.order_by("pk"):
        queues.setdefault(queue.pool.name, queue)
    rows = Job.objects.filter(pk__in=places, state=JobState.QUEUED, booked_in=None)
    locked = rows.select_for_update(of=("self",)).select_related("pool", "project__team", "owner")
    going = [job for job in locked.order_by("pk") if _may_go(job, places[job.pk], queues)]
    if not going:
        return []
    was_in = {job.pk: job.pool.name for job in going}
    for name, queue in queues.items():
        _go_to(queue, [job for job in going if places[job.pk] == name])
    give_back(was_in)
    pledge(going, list(pledging(now)), now=now)
    with gathering():
        for job in going:
            detail = {"from": was_in[job.pk], "to": job.pool.name}
            record_event(job, "moved_to_pool", now=now, detail=detail)
    for job in going:
        tell_of_job(job, was_in[job.pk])
        tell_of_job(job)
    events.wake_scheduler_on_commit()
    return list(was_in)


def _may_go(job: Job, name: str, queues: Mapping[str, Queue]) -> bool:
    return name != job.pool.name and name in queues and name in (job.pool_choice or ())


def _go_to(queue: Queue, jobs: Sequence[Job]) -> None:
    if not jobs:
        return
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(
        pool=queue.pool,
        queue=queue,
        version=F("version") + 1,
        wait_reason=WaitReason.EVALUATING,
        wait_facts={},
    )
    for job in jobs:
        job.pool, job.queue = queue.pool, queue
