"""The open jobs of groups of which the newest counts: found, locked, and what a new one does to
each of them.

A group is one person's within a project. An array is one member of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from django.db import transaction
from django.db.models import QuerySet

from accounts.models import User
from scheduler.models import Attempt, Job
from scheduler.services.attempts import locked_live_attempts
from scheduler.services.errors import Conflict
from scheduler.services.holding.arrays import NeededSet, tallies_of
from scheduler.services.holding.obstacles import Needed, dependency_obstacle, has_namesakes
from scheduler.services.submitting.order import MAX_ROWS, Order, lock_arrays, lock_jobs
from scheduler.services.submitting.targets import Seen
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.order import SINGLETON
from scheduler.states import LIVE_JOB_STATES, OPEN_JOB_STATES, DependencyKind

_TRIES = 3
_AFTERANY = str(DependencyKind.AFTERANY)
_ANY, _SUCCESS = frozenset(DependencyKind), frozenset({DependencyKind.AFTEROK})


@dataclass(slots=True)
class Members:
    """The open jobs of one group, tasks of arrays as well: `fresh` have never been tried, nor has
    any task of their array; `begun` have. `attempts`: those that live, by job, where they may be
    stopped."""

    fresh: list[Job] = field(default_factory=list)
    begun: list[Job] = field(default_factory=list)
    attempts: dict[int, Attempt] = field(default_factory=dict)

    def leaving(self, policy: str) -> list[Job]:
        """Those that wait and are cancelled for a new one."""
        if policy != "stop":
            return list(self.fresh)
        return self.fresh + [job for job in self.begun if job.state not in LIVE_JOB_STATES]

    def stopping(self, policy: str) -> list[Job]:
        """Those that run and are asked to stop for it."""
        return _live(self.begun) if policy == "stop" else []

    def waited_for(self, policy: str) -> list[Job]:
        """Those whose end it waits for; of an array any that is left."""
        if policy == "beside":
            return []
        return _live(self.begun) if policy == "stop" else list(self.begun)


def _live(jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if job.state in LIVE_JOB_STATES]


def lock_groups(actor: User, specs: Sequence[JobSpec], seen: Seen) -> None:
    """Read the groups that these specs name into `seen`, their members locked: first of all that
    the transaction of a submit locks, in the order of the house. No statement without groups.

    The person is locked before, so that of two submits at once the second sees the job of the
    first; so it is where earlier namesakes are looked at. Raises Conflict `try_again` where one
    that has to stop is just being started, again and again.
    """
    lock_person_for(actor, specs)
    named = [spec for spec in specs if spec.group]
    if not named:
        return
    for _ in range(_TRIES):
        with transaction.atomic():
            members = _locked(actor, specs, named)
            if members is not None:
                seen.groups = members
                return
            # Its attempt was not there yet when attempts were locked, which come before jobs.
            transaction.set_rollback(True)
    raise Conflict("A job of its group is just being started; try again.", code="try_again")


def lock_person(actor: User) -> None:
    """Let who brings members to groups of theirs do it one after the other; before all else that is
    locked."""
    User.objects.select_for_update(no_key=True).filter(pk=actor.pk).first()


def lock_person_for(actor: User, specs: Sequence[JobSpec]) -> None:
    """The same where one of these specs is of a group, or waits for earlier namesakes."""
    if any(spec.group or any(one.kind == SINGLETON for one in spec.depends_on) for spec in specs):
        lock_person(actor)


def read_groups(actor: User, specs: Sequence[JobSpec], seen: Seen) -> None:
    """The same for a dry run, without locks."""
    if named := [spec for spec in specs if spec.group]:
        jobs = list(_open_jobs(actor, named).select_related("project__team"))
        seen.groups = _by_group(jobs, {})


def _locked(
    actor: User, specs: Sequence[JobSpec], named: Sequence[JobSpec]
) -> dict[tuple[str, str], Members] | None:
    """None where one that may be stopped was started in between."""
    there = _open_jobs(actor, named)
    may_stop = any(spec.group_policy == "stop" for spec in named)
    running = Attempt.objects.filter(job__in=there.values("pk"))
    attempts = {one.job_id: one for one in locked_live_attempts(running)} if may_stop else {}
    lock_arrays(actor, specs, also=there)
    lock_jobs(actor, specs, also=there)
    rows = there.select_for_update(of=("self",)).select_related("pool", "project__team", "owner")
    jobs = list(rows.order_by("pk"))
    if may_stop and any(job.pk not in attempts for job in _live(jobs)):
        return None
    return _by_group(jobs, attempts)


def _open_jobs(actor: User, named: Sequence[JobSpec]) -> QuerySet[Job]:
    return Job.objects.filter(
        owner=actor,
        group_name__in={spec.group for spec in named},
        project__slug__in={spec.project.rpartition("/")[2] for spec in named},
        ended_at__isnull=True,
        state__in=OPEN_JOB_STATES,
    )


def _by_group(jobs: Sequence[Job], attempts: dict[int, Attempt]) -> dict[tuple[str, str], Members]:
    """By project and name. Whether one has been tried is asked of its attempts: one that could not
    be started has none of its own moments."""
    alone = [job.pk for job in jobs if job.job_set_id is None]
    sets = {job.job_set_id for job in jobs if job.job_set_id}
    tried = set(Attempt.objects.filter(job__in=alone).values_list("job_id", flat=True))
    by_set = Attempt.objects.filter(job__job_set__in=sets).order_by()
    begun = set(by_set.values_list("job__job_set_id", flat=True).distinct()) if sets else set()
    found: dict[tuple[str, str], Members] = {}
    for job in jobs:
        members = found.setdefault((job.project.path, job.group_name or ""), Members())
        is_begun = job.pk in tried if job.job_set_id is None else job.job_set_id in begun
        (members.begun if is_begun else members.fresh).append(job)
        if job.pk in attempts:
            members.attempts[job.pk] = attempts[job.pk]
    return found


def after_group(actor: User, order: Order, spec: JobSpec, members: Members) -> Order:
    """The order with those of its group that it waits for; raises SpecInvalid where it names one
    that is cancelled or stopped for it, and where these are too many rows."""
    _refuse_ended(order, spec, members)
    waited = members.waited_for(spec.group_policy)
    if not waited:
        return order
    # One that it names itself as well is one row.
    singles = {(one.kind, one.job): one for one in order.needed} | {
        (_AFTERANY, job.pk): Needed(
            _AFTERANY, job.pk, job.state, job.started_at is not None, spec.group
        )
        for job in waited
        if job.job_set_id is None
    }
    sets = {job.job_set_id for job in waited if job.job_set_id}
    whole = {(one.kind, one.job_set): one for one in order.arrays} | {
        (_AFTERANY, number): NeededSet(_AFTERANY, number, tally, spec.group)
        for number, tally in tallies_of(sets).items()
    }
    _refuse_rows(spec, len(singles) + len(whole))
    needed, arrays = tuple(singles.values()), tuple(whole.values())
    namesakes = order.is_singleton and has_namesakes(actor.pk, spec.name)
    obstacle = dependency_obstacle(needed, arrays, namesakes=namesakes)
    return replace(order, needed=needed, arrays=arrays, obstacle=obstacle)


def _refuse_ended(order: Order, spec: JobSpec, members: Members) -> None:
    """One that it cancels cannot be waited for, nor the success of one that it stops."""
    policy = spec.group_policy
    singles = list(chain(order.needed, *order.by_index.values()))
    for jobs, becomes, kinds in (
        (members.leaving(policy), "cancelled", _ANY),
        (members.stopping(policy), "stopped", _SUCCESS),
    ):
        gone = {job.pk for job in jobs}
        sets = {job.job_set_id for job in jobs if job.job_set_id}
        both = [f"job {one.job}" for one in singles if one.job in gone and one.kind in kinds]
        both += [
            f"array {one.job_set}"
            for one in order.arrays
            if one.job_set in sets and one.kind in kinds
        ]
        if both:
            words = (
                f"waits for {both[0]}, which would be {becomes} for it as an older one of its "
                f"group {spec.group}; remove it, or leave group out"
            )
            raise SpecInvalid([SpecProblem("depends_on", words)])


def _refuse_rows(spec: JobSpec, awaited: int) -> None:
    tasks = len(spec.array.indexes) if spec.array else 1
    if tasks * awaited > MAX_ROWS:
        words = (
            f"has {awaited} jobs that go on, and each of the {tasks} tasks would wait for all of "
            "them; let it run beside them, send fewer tasks, or wait until some have ended"
        )
        raise SpecInvalid([SpecProblem("group", words)])


def group_words(spec: JobSpec, members: Members | None) -> str:
    """What its submit does to the others of its group, and what it waits for; "" for nothing."""
    if members is None:
        return ""
    policy = spec.group_policy
    said = [
        f"{verb} {_named(jobs)}"
        for verb, jobs in (
            ("cancels", members.leaving(policy)),
            ("stops", members.stopping(policy)),
        )
        if jobs
    ]
    if waited := members.waited_for(policy):
        ended = "that has ended" if len(named_of(waited)) == 1 else "these have ended"
        said.append(
            f"waits until {ended}" if policy == "stop" else f"waits for {_named(waited)} to end"
        )
    if not said:
        return ""
    words = f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else said[0]
    return f"As the newest of its group {spec.group} it {words}."


def _named(jobs: Sequence[Job], most: int = 3) -> str:
    names = named_of(jobs)
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join(names[:most] + more)


def named_of(jobs: Iterable[Job]) -> list[str]:
    """As people name them, an array once: "job 12", "array 4"."""
    return list(dict.fromkeys(name_of(job) for job in jobs))


def name_of(job: Job) -> str:
    """Of a task its array."""
    return f"array {job.job_set_id}" if job.job_set_id else f"job {job.pk}"
