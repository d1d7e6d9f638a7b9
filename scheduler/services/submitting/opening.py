"""A checked spec to rows: one job, or a set with a job for each index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from accounts.models import Project, User
from scheduler import events
from scheduler.models import Booking, Budget, Job, JobEvent, JobSet, Pool, Queue, Session
from scheduler.services import transitions
from scheduler.services.bookings.joining import resolve_booking
from scheduler.services.holding.obstacles import Obstacle, begin_obstacle, limit_obstacle
from scheduler.services.rows.adding import add_objects
from scheduler.services.secrets import note_meant
from scheduler.services.sessions.limits import refuse_session
from scheduler.services.sharing.alerts import refuse_blocked
from scheduler.services.sharing.keeping.pledging import pledge_at_submit
from scheduler.services.sharing.waiting_room import refuse_beyond_cap
from scheduler.services.submitting.ceilings import refuse_above_ceiling
from scheduler.services.submitting.columns import columns_of, pools_of
from scheduler.services.submitting.groups import Members, after_group
from scheduler.services.submitting.in_time import refuse_unfinishable
from scheduler.services.submitting.longest import refuse_longer
from scheduler.services.submitting.order import Order, resolve_order, write_waits
from scheduler.services.submitting.payable import refuse_unpayable
from scheduler.services.submitting.superseding import Newest, supersede
from scheduler.services.submitting.targets import Seen, in_other_pool
from scheduler.spec import JobSpec, SpecInvalid
from scheduler.spec.order import AFTERCORR, of_task, write_range
from scheduler.states import FINAL_JOB_STATES, JobState, WaitReason


@dataclass(frozen=True, slots=True)
class Target:
    """Who submits, on whose bill, into which line, when, and from which job or set it comes."""

    actor: User
    project: Project
    queue: Queue
    now: datetime
    cloned_from: Job | None = None
    rerun_of: JobSet | None = None
    booking: Booking | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """A job that may be written: where it goes, and what it waits for.

    `budgets` as `asked_at_submit`; `members`: of its group, None for none.
    """

    target: Target
    spec: JobSpec
    order: Order
    obstacle: Obstacle | None
    budgets: Sequence[Budget] = ()
    members: Members | None = None

    @property
    def leaving(self) -> list[Job]:
        """The jobs of its group that wait and are cancelled for it."""
        return self.members.leaving(self.spec.group_policy) if self.members else []

    @property
    def _fields(self) -> dict[str, Any]:
        return _fields(self.target, self.spec, self.order)

    def drafts(self, first: int, most: int) -> list[Job]:
        """As rows that nobody writes, numbered from `first`: the job, or of a set the tasks that
        may wait for room at once, `most` at most.
        """
        fields, array = self._fields, self.spec.array
        size = min(most, len(array.indexes)) if array else 1
        if array and array.max_parallel:
            size = min(size, array.max_parallel)
        queued = {"state": JobState.QUEUED, "wait_reason": WaitReason.EVALUATING}
        return [Job(pk=first + place, **fields, **queued) for place in range(size)]


def check_job(target: Target, spec: JobSpec, seen: Seen) -> Opening:
    """Whether the job, or the set, may be submitted; what was looked up goes to `seen`.

    Raises SpecInvalid for an order that cannot be, above the highest tier, longer than allowed,
    beyond what may wait or a budget lets in. Where jobs are capped, those of before must
    have been written.
    """
    refuse_session(spec)
    order, members = resolve_order(target.actor, spec), _members_of(target, spec, seen)
    if members is not None:
        order = after_group(target.actor, order, spec, members)
    budgets = seen.budgets_at(target.now)
    seen.once(refuse_blocked, target.project, budgets)
    booking = resolve_booking(target.actor, target.project, target.queue, spec, now=target.now)
    refuse_unfinishable(spec, target.now, booking.from_at if booking else None)
    seen.once(refuse_above_ceiling, target.project, spec.tier_number)
    _refuse_in_pool(spec, target.project, target.queue.pool, seen, target.now)
    _refuse_in_others(spec, target.project, seen, target.now)
    if seen.has_cap(target.project):
        more = len(spec.array.indexes) if spec.array else 1
        going = len(members.leaving(spec.group_policy)) if members else 0
        is_session = spec.session is not None
        refuse_beyond_cap(target.project, more, is_session=is_session, going=going)
    target = replace(target, booking=booking)
    obstacle = _held_by(target, spec) or order.obstacle or begin_obstacle(spec.begin, target.now)
    return Opening(target, spec, order, obstacle, budgets, members)


def _refuse_in_pool(spec: JobSpec, project: Project, pool: Pool, seen: Seen, now: datetime) -> None:
    """Raises SpecInvalid where its highest price does not pay there, or its time limit is longer
    than allowed."""
    refuse_unpayable(spec, project, pool, seen.dearest_at(now))
    refuse_longer(seen.longest_in(project, pool, now), project, pool, spec.time_limit)


def _refuse_in_others(spec: JobSpec, project: Project, seen: Seen, now: datetime) -> None:
    """The same for each of its pools but the first; the refusal names the pool."""
    for queue in filter(None, map(seen.queue, pools_of(spec)[1:])):
        try:
            _refuse_in_pool(spec, project, queue.pool, seen, now)
        except SpecInvalid as refused:
            raise in_other_pool(queue.pool, refused) from None


def _members_of(target: Target, spec: JobSpec, seen: Seen) -> Members | None:
    """What runs again the failed tasks of an array is none beside it: it ends nothing."""
    if not spec.group or target.rerun_of is not None:
        return None
    return seen.groups.setdefault((target.project.path, spec.group), Members())


def write_jobs(openings: Sequence[Opening]) -> list[Job]:
    """Write the jobs: held or queued, with what they wait for and their first event.

    Of a set the first task is returned. Three statements for all that are no sets or sessions, and
    what budgets need that commit at the submit; raises SpecInvalid if one has too little left.
    """
    if any(one.spec.array is not None for one in openings):
        return [
            job
            for one in openings
            for job in ([_open_set(one)] if one.spec.array else write_jobs([one]))
        ]
    jobs = add_objects(Job(**one._fields, **_state(one.obstacle)) for one in openings)
    pairs = list(zip(openings, jobs, strict=True))
    write_waits((one.order, [job]) for one, job in pairs)
    Session.objects.bulk_create(
        Session(job=job, app=one.spec.session.app, idle_stop_s=one.spec.session.idle_stop)
        for one, job in pairs
        if one.spec.session is not None
    )
    note_meant(openings[0].target.actor, jobs)
    _record(openings[0].target, jobs)
    _end_older((one, [job]) for one, job in pairs)
    left = [job for job in jobs if job.state not in FINAL_JOB_STATES]
    pledge_at_submit(left, openings[0].budgets, now=openings[0].target.now)
    return jobs


def _end_older(written: Iterable[tuple[Opening, Sequence[Job]]]) -> None:
    """What is older in their groups, before budgets are asked: what it had pledged is free then."""
    newest = [
        (one.target, Newest(jobs, one.members, one.spec.group_policy))
        for one, jobs in written
        if one.members is not None
    ]
    if newest:
        target = newest[0][0]
        supersede([one for _, one in newest], actor=target.actor, now=target.now)


def _held_by(target: Target, spec: JobSpec) -> Obstacle | None:
    who = {"who": target.actor.get_full_name()}
    return Obstacle(WaitReason.HELD_BY_USER, dict(who)) if spec.hold else None


def _fields(target: Target, spec: JobSpec, order: Order) -> dict[str, Any]:
    return {
        **columns_of(spec),
        "project": target.project,
        "owner": target.actor,
        "pool": target.queue.pool,
        "queue": target.queue,
        "cloned_from": target.cloned_from,
        "booked_in": target.booking,
        "is_singleton": order.is_singleton,
        "submitted_at": target.now,
        "queued_at": target.now,
    }


def _state(obstacle: Obstacle | None) -> dict[str, Any]:
    if obstacle is None:
        return {"state": JobState.QUEUED, "wait_reason": WaitReason.EVALUATING}
    held = {"wait_reason": obstacle.reason, "wait_facts": obstacle.facts}
    return {"state": JobState.HELD, **held}


def _open_set(opening: Opening) -> Job:
    target, spec = opening.target, opening.spec
    assert spec.array is not None
    indexes, limit = spec.array.indexes, spec.array.max_parallel
    job_set = JobSet.objects.create(
        project=target.project,
        owner=target.actor,
        name=spec.name,
        spec=spec.document(),
        range=write_range(indexes),
        size=len(indexes),
        max_parallel=limit,
        rerun_of=target.rerun_of,
        created_at=target.now,
    )
    # A task's own spec is that of one job: its clone is no array again, nor ends what is left of
    # this one as the newest of its group.
    own = {"array": None, "depends_on": of_task(spec.depends_on, 0)}
    alone = spec.model_copy(update={**own, "group": "", "group_policy": "wait"})
    common = _fields(target, alone, opening.order) | {"group_name": spec.group or None}
    states = _states(opening, indexes, limit)
    specs = _own_specs(spec, common["spec"], indexes)
    tasks = add_objects(
        Job(**{**common, **document}, **state, job_set=job_set, array_index=index)
        for index, state, document in zip(indexes, states, specs, strict=True)
    )
    write_waits([(opening.order, tasks)])
    note_meant(target.actor, tasks)
    _record(target, tasks)
    _end_older([(opening, tasks)])
    pledge_at_submit(tasks, opening.budgets, now=target.now)
    return tasks[0]


def _states(opening: Opening, indexes: Sequence[int], limit: int) -> Iterator[dict[str, Any]]:
    """How each task begins: of those in whose way nothing is, `limit` are free, 0 for all."""
    free, is_each = 0, bool(opening.order.by_index) and not opening.spec.hold
    full = limit_obstacle(limit)
    for index in indexes:
        own = opening.order.obstacle_of(index) if is_each else None
        obstacle = own or opening.obstacle
        if obstacle is None:
            free += 1
            obstacle = full if limit and free > limit else None
        yield _state(obstacle)


def _own_specs(
    spec: JobSpec, common: dict[str, Any], indexes: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """The spec of each task, where it differs: what it waits for has its own index."""
    is_each = any(one.kind == AFTERCORR for one in spec.depends_on)
    for index in indexes:
        waits = [one.written() for one in of_task(spec.depends_on, index)] if is_each else []
        yield {"spec": {**common, "depends_on": waits}} if is_each else {}


def _record(target: Target, jobs: Sequence[Job]) -> None:
    """The first event of each, a hint for each line, and a wake if any may start."""
    add_objects(
        JobEvent(job=job, at=target.now, actor=target.actor, kind="submitted", to_state=job.state)
        for job in jobs
    )
    for job in {(job.project_id, job.pool_id): job for job in jobs}.values():
        transitions.tell_of_job(job)
    if any(job.state == JobState.QUEUED for job in jobs):
        events.wake_scheduler_on_commit()
