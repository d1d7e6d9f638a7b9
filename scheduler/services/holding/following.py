"""Whose obstacle may be gone, now that a job has moved; reads and locks only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.statements import AskedOnce, BuiltOnce
from scheduler.models import Dependency, Job, JobSet, SetDependency
from scheduler.services.holding.arrays import decided_arrays, waiting_for_arrays
from scheduler.services.holding.obstacles import active_tasks
from scheduler.states import (
    FINAL_JOB_STATES,
    OPEN_JOB_STATES,
    WAITING_JOB_STATES,
    JobState,
    WaitReason,
)

# Held for these, a job is let go at its `begin_at`.
UNTIL_A_TIME = (WaitReason.BEGIN_TIME, WaitReason.STORAGE_PAUSE, WaitReason.RETRY_PAUSE)
# So many are let go with one look; the next second brings the next.
MAX_HEALED = 2_000


def followers_of(jobs: Sequence[Job]) -> list[int]:
    """The held jobs to look at again after these have ended, started or been held."""
    found = {pk for (pk,) in _WAITING_FOR.rows([job.pk for job in jobs])}
    over = {(job.owner_id, job.name) for job in jobs if job.state in FINAL_JOB_STATES}
    if over:
        # Of each name the oldest alone: the others wait for that one, which has not ended.
        rows = _SINGLETONS.rows(sorted({owner for owner, _ in over}))
        oldest = {(owner, name): pk for pk, owner, name in sorted(rows, reverse=True)}
        found.update(pk for whose, pk in oldest.items() if whose in over)
    gone = [job for job in jobs if job.state in FINAL_JOB_STATES or job.state == JobState.HELD]
    lock_sets_over(gone)
    found.update(waiting_for_arrays(jobs))
    for number in {job.job_set_id for job in gone if job.job_set_id}:
        found.update(_next_tasks(number))
    return sorted(found)


def _waiting_for(jobs: Sequence[int]) -> QuerySet[Dependency, tuple[Any, ...]]:
    waits = Dependency.objects.filter(on_id__in=jobs, job__state=JobState.HELD)
    return waits.order_by().values_list("job_id")


def _singletons_of(owners: Sequence[int]) -> QuerySet[Job, tuple[Any, ...]]:
    held = Job.objects.filter(state=JobState.HELD, is_singleton=True, owner_id__in=owners)
    return held.order_by().values_list("pk", "owner_id", "name")


_WAITING_FOR, _SINGLETONS = BuiltOnce(_waiting_for), BuiltOnce(_singletons_of)


def lock_sets(job_ids: Iterable[int]) -> None:
    """Lock the sets of these jobs, so that the room of a throttled one is given away once, and of
    two last tasks that end at once the second sees the first.

    Everybody locks in one order: attempts, sets, jobs, nodes; the other way round two may stand
    opposite each other for ever. No statement on SQLite, which has one writer.
    """
    if connection.features.has_select_for_update:
        _lock({number for (number,) in _SETS.rows(list(job_ids))})


def lock_sets_over(jobs: Iterable[Job]) -> None:
    """The same for jobs that may end, before their own rows are written. No statement where they
    are of no array."""
    if connection.features.has_select_for_update:
        _lock({job.job_set_id for job in jobs if job.job_set_id})


def _lock(sets: set[int]) -> None:
    if sets:
        list(JobSet.objects.select_for_update().filter(pk__in=sets).order_by("pk"))


def locked_waiting(jobs: QuerySet[Job]) -> list[Job]:
    """Those of them that wait, with their pools, locked to be ended together; their sets before
    them."""
    waiting = jobs.filter(state__in=WAITING_JOB_STATES)
    tasks = waiting.filter(job_set__isnull=False).order_by()
    list(JobSet.objects.select_for_update().filter(pk__in=tasks.values("job_set")).order_by("pk"))
    locked = waiting.select_for_update(of=("self",)).select_related("pool")
    return list(locked.order_by("pk"))


def _sets_of(jobs: Sequence[int]) -> QuerySet[Job, tuple[Any, ...]]:
    tasks = Job.objects.filter(pk__in=jobs, job_set__isnull=False)
    return tasks.order_by().values_list("job_set_id").distinct()


_SETS = BuiltOnce(_sets_of)


def _next_tasks(number: int) -> list[int]:
    """The tasks that the throttle of a set has room for now."""
    limit = (
        JobSet.objects.filter(pk=number, max_parallel__gt=0)
        .values_list("max_parallel", flat=True)
        .first()
    )
    if limit is None:
        return []
    room = limit - active_tasks([number]).get(number, 0)
    held = Job.objects.filter(
        job_set=number, state=JobState.HELD, wait_reason=WaitReason.ARRAY_LIMIT
    )
    return list(held.order_by("array_index").values_list("pk", flat=True)[: max(0, room)])


def overdue(now: datetime) -> list[int]:
    """Held jobs whose time to begin has come, also anew; one query, by the index of begin times."""
    return [pk for (pk,) in _OVERDUE.read(now)]


def _due_by(now: datetime) -> QuerySet[Job, tuple[Any, ...]]:
    due = Job.objects.filter(state=JobState.HELD, wait_reason__in=UNTIL_A_TIME, begin_at__lte=now)
    return due.order_by("begin_at").values_list("pk")[:MAX_HEALED]


_OVERDUE = AskedOnce(_due_by)


def forgotten() -> list[int]:
    """Held jobs whose dependencies are decided, or whose set has room, and that nobody let go.

    That takes a race or a crash between two moves; there are none in the usual course.
    """
    found = [pk for (pk,) in _DECIDED.read()] + _decided_by_arrays()
    limits = dict(_THROTTLED.read())
    # Nearly all sets are full: they are told apart by one count, not looked at one by one.
    active = active_tasks(list(limits)) if limits else {}
    for number, limit in limits.items():
        if active.get(number, 0) < limit:
            found += _next_tasks(number)
    return found


def _by_single_jobs() -> tuple[Exists, Q]:
    """Of a job: whether one that it waits for has broken its wait, and whether none is in the way,
    nor an earlier one of its name."""
    mine = Dependency.objects.filter(job=OuterRef("pk"))
    is_over = Q(on__state__in=FINAL_JOB_STATES)
    is_met = (
        Q(kind="afterany") & is_over
        | Q(kind="afterok", on__state=JobState.SUCCEEDED)
        | Q(kind="afternotok") & is_over & ~Q(on__state=JobState.SUCCEEDED)
        | Q(kind="after") & (is_over | Q(on__started_at__isnull=False))
    )
    earlier = Job.objects.filter(
        owner=OuterRef("owner"),
        name=OuterRef("name"),
        pk__lt=OuterRef("pk"),
        state__in=OPEN_JOB_STATES,
    )
    is_first = Q(is_singleton=False) | ~Exists(earlier)
    return Exists(mine.filter(is_over).exclude(is_met)), ~Exists(mine.exclude(is_met)) & is_first


def _for_others() -> QuerySet[Job]:
    return Job.objects.filter(state=JobState.HELD, wait_reason=WaitReason.DEPENDENCY_WAIT)


def _of_job() -> QuerySet[SetDependency]:
    return SetDependency.objects.filter(job=OuterRef("pk"))


def _decided() -> QuerySet[Job, tuple[Any, ...]]:
    is_broken, is_free = _by_single_jobs()
    decided = _for_others().filter(is_broken | (is_free & ~Exists(_of_job())))
    return decided.values_list("pk")[:MAX_HEALED]


def _decided_by_arrays() -> list[int]:
    found = decided_arrays()
    if found is None:
        return []
    is_met, is_never = found
    _, is_free = _by_single_jobs()
    decided = Exists(_of_job().filter(is_never)) | (is_free & ~Exists(_of_job().exclude(is_met)))
    waits = _for_others().filter(Exists(_of_job())).filter(decided)
    return list(waits.values_list("pk", flat=True)[:MAX_HEALED])


def _throttled() -> QuerySet[Job, tuple[Any, ...]]:
    throttled = Job.objects.filter(
        state=JobState.HELD, wait_reason=WaitReason.ARRAY_LIMIT, job_set__isnull=False
    )
    limits = throttled.order_by().values_list("job_set_id", "job_set__max_parallel")
    return limits.distinct()


_DECIDED, _THROTTLED = AskedOnce(_decided), AskedOnce(_throttled)
