"""Arrays as a whole: cancel what is left, run again what failed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can, managed_for
from accounts.services.audit import record
from scheduler.models import Job, JobSet
from scheduler.selectors.prices.seen import priced_for
from scheduler.services.composing.templates import submit_again
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.holding.alone import refuse_alone
from scheduler.services.holding.following import followers_of, locked_waiting
from scheduler.services.holding.moves import cancel_waiting, reconsider
from scheduler.services.holding.reasons import ReasonNeeded, by_whom, written_about
from scheduler.services.jobs import end_job
from scheduler.services.submitting.groups import lock_person
from scheduler.spec import JobSpec, parse_spec
from scheduler.spec.order import write_range
from scheduler.states import OPEN_JOB_STATES, EndReason, JobState

# A task that ended like this does not stand in for the one it ran again.
_CAME_TO_NOTHING = (JobState.FAILED, JobState.CANCELLED)


def acts_as_operator(actor: User, job_set: JobSet) -> bool:
    """Whether the actor acts as an operator; raises Forbidden when the actor may not act at all."""
    if job_set.owner_id == actor.pk and can(actor, "submit_job", job_set.project):
        return False
    if can(actor, "manage_project", job_set.project):
        return False
    if can(actor, "operate", None):
        return True
    raise Forbidden("Only the set's owner, a team lead or an operator may do this.")


def cancel_set(
    *, actor: User, job_set: JobSet, reason: str = "", now: datetime | None = None
) -> int:
    """End every task early; returns how many had not ended. A no-op when all have.

    Raises SecondNeeded where these are too many of somebody else for one person, ReasonNeeded
    without a reason for any of another's. The waiting tasks go first and in one transaction, so
    that none of them starts meanwhile; each running one is then asked to stop by itself.
    """
    now = now or timezone.now()
    as_operator = acts_as_operator(actor, job_set)
    left = Job.objects.filter(job_set=job_set, state__in=OPEN_JOB_STATES)
    said = written_about(reason, left)
    if actor.pk != job_set.owner_id and (many := left.count()):
        refuse_alone(actor, many, now=now)
        if not said:
            raise ReasonNeeded(f"Array {job_set.pk} is somebody else's")
    end = EndReason.CANCELLED_BY_ADMIN if as_operator else EndReason.CANCELLED_BY_USER
    with transaction.atomic():
        waiting = locked_waiting(Job.objects.filter(job_set=job_set))
        facts = by_whom(actor, said)
        cancel_waiting(waiting, reason=end, facts=facts, now=now, actor=actor)
        if actor.pk != job_set.owner_id:
            _record(actor, "cancel", job_set, {"waiting_tasks": len(waiting)}, now, said)
        reconsider(followers_of(waiting), now=now)
    for job in (running := list(left.select_related("project__team", "owner"))):
        end_job(actor=actor, job=job, reason=said, now=now)
    return len(waiting) + len(running)


def rerun_failed(*, actor: User, job_set: JobSet, now: datetime | None = None) -> JobSet:
    """A new set of the indexes whose tasks have failed; those that run again already, or have
    succeeded meanwhile, in whichever set of those that began with one array, are left out.

    The new tasks wait neither for a begin time nor for what the old ones had waited for, and
    have no moment to be finished by.
    """
    now = now or timezone.now()
    acts_as_operator(actor, job_set)
    if not can(actor, "read_log", job_set.project):
        raise Forbidden("Only those who may see what the set runs can run it again.")
    with transaction.atomic():
        if job_set.spec.get("group"):
            # A newer one that comes at once sees these tasks, or they come after it.
            lock_person(actor)
        others = _locked_kin(job_set) - {job_set.pk}
        failed = set(_indexes(job_set.tasks.filter(state=JobState.FAILED)))
        again = Job.objects.filter(job_set__in=others).exclude(state__in=_CAME_TO_NOTHING)
        left = failed - set(_indexes(again))
        if not left:
            words = "run again already" if failed else "none of its tasks has failed"
            raise Conflict(f"There is nothing to run again: {words}.")
        spec = _again(actor, job_set, left)
        task = job_set.tasks.filter(state=JobState.FAILED)[:1].get()
        first = submit_again(actor=actor, job=task, spec=spec, rerun_of=job_set, now=now).job
        if actor.pk != job_set.owner_id:
            _record(actor, "rerun", job_set, {"indexes": write_range(left)}, now)
    assert first.job_set is not None
    return first.job_set


def _locked_kin(job_set: JobSet) -> set[int]:
    """The first array and all that ran it again, one after the other or beside each other.

    The first one is locked: two presses at once, at whichever of them, make one set.
    """
    first = job_set
    while first.rerun_of is not None:
        first = first.rerun_of
    JobSet.objects.select_for_update().get(pk=first.pk)
    kin, newest = set[int](), {first.pk}
    while newest:
        kin |= newest
        newest = set(JobSet.objects.filter(rerun_of__in=newest).values_list("pk", flat=True))
    return kin


def _record(
    actor: User, verb: str, job_set: JobSet, after: Mapping[str, Any], now: datetime, said: str = ""
) -> None:
    giver, what = managed_for(actor, job_set.project), f"set.{verb}"
    record(actor, what, job_set, after=after, on_behalf_of=giver, reason=said, now=now)


def _indexes(tasks: QuerySet[Job]) -> list[int]:
    return [index for index in tasks.values_list("array_index", flat=True) if index is not None]


def _again(actor: User, job_set: JobSet, indexes: set[int]) -> JobSpec:
    spec = JobSpec.model_validate(job_set.spec)
    if actor.pk != job_set.owner_id:
        spec = priced_for(actor, job_set, spec.run_by_another())
    document = spec.document() | {"begin": None, "depends_on": [], "hold": False}
    document |= {"finish_by": None, "finish_by_policy": "keep"}
    array = {"range": write_range(indexes), "max_parallel": job_set.max_parallel}
    return parse_spec({**document, "array": array})
