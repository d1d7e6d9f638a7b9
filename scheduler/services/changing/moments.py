"""Another moment by which a job has to be finished, and another word on what follows then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler import events
from scheduler.models import Job
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.changing.rules import refuse_by_template
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.history import record_event, tell_of_job
from scheduler.services.jobs import check_actor, locked_job
from scheduler.services.rows.updating import update_row
from scheduler.services.submitting.columns import finish_columns
from scheduler.services.submitting.in_time import refuse_unfinishable
from scheduler.spec import JobSpec, SpecInvalid
from scheduler.spec.values import format_moment
from scheduler.states import FINAL_JOB_STATES, LIVE_JOB_STATES, FinishPolicy, stamp


@dataclass(frozen=True, slots=True)
class Finishing:
    """What is asked for: None leaves it as it is; `is_taken_back`: no moment any more."""

    finish_by: datetime | None = None
    policy: FinishPolicy | None = None
    is_taken_back: bool = False

    def of(self, job: Job) -> tuple[datetime | None, FinishPolicy]:
        """What the job has then; raises Invalid for a policy without a moment."""
        if self.is_taken_back:
            return None, FinishPolicy.KEEP
        finish_by = self.finish_by or job.finish_by
        if finish_by is None and self.policy is FinishPolicy.CANCEL:
            words = "finish_by_policy: says what follows after finish_by; give that too."
            raise Invalid(words, field="finish_by_policy")
        policy = self.policy or job.finish_policy or FinishPolicy.KEEP
        return finish_by, policy if finish_by else FinishPolicy.KEEP


def as_it_is(job: Job) -> tuple[datetime | None, FinishPolicy]:
    """The moment of the job and what follows then."""
    return job.finish_by, job.finish_policy or FinishPolicy.KEEP


@transaction.atomic
def set_finish_by(
    *,
    actor: User,
    job: Job,
    asked: Finishing,
    version: int | None = None,
    now: datetime | None = None,
) -> Job:
    """Let the job have to be finished by this moment. A no-op if it has to.

    1. A waiting job may have any that a submit would accept with its time limit of now; its
       template holds its owner.
    2. One that runs may have a later one, or be kept: it never gets less than it was promised.
    3. Its owner is told anew of what follows from it.

    Raises Forbidden, Conflict, Invalid or StaleVersion.
    """
    now = now or timezone.now()
    # Attempts are locked before jobs, by whoever changes its time limit along with this, too.
    attempt_id = job.attempts.order_by("-number").values_list("pk", flat=True).first()
    attempt = locked_live_attempt(attempt_id) if attempt_id else None
    job = locked_job(job)
    check_actor(actor, job, version)
    if job.state in FINAL_JOB_STATES:
        raise Conflict(f"The job has ended: it is {job.state}.")
    finish_by, policy = asked.of(job)
    if (finish_by, policy) == as_it_is(job):
        return job
    was = finish_words(job)
    _check(actor, job, finish_by, policy, now)
    spec = {**job.spec, "finish_by": finish_by and format_moment(finish_by)}
    columns = {
        **finish_columns(finish_by, policy, job.time_limit_s),
        "spec": {**spec, "finish_by_policy": str(policy)},
        "told_late": None,
    }
    guard = {"state": job.state, "version": job.version}
    if not update_row(Job, job.pk, columns, guard=guard, raised=("version",)):
        raise Conflict("The job has just moved; nothing was changed. Try again.", code="try_again")
    job = locked_job(job)
    facts = {"was": was, "is": finish_words(job)}
    record_event(job, "finish_by_changed", now=now, actor=actor, attempt=attempt, detail=facts)
    if actor.pk == job.owner_id:
        before, after = ({"finish_by": words} for words in facts.values())
        record(actor, "job.finish_by_changed", job, before=before, after=after, now=now)
    tell_of_job(job)
    events.wake_scheduler_on_commit()
    return job


def finish_words(job: Job) -> str:
    """Such as "2026-12-31 08:00 UTC, cancelled when late"; "no moment" for none."""
    if job.finish_by is None:
        return "no moment"
    is_kept = job.finish_policy is FinishPolicy.KEEP
    return f"{stamp(job.finish_by)}, {'kept' if is_kept else 'cancelled'} when late"


def _check(
    actor: User, job: Job, finish_by: datetime | None, policy: FinishPolicy, now: datetime
) -> None:
    is_live = job.state in LIVE_JOB_STATES
    if is_live:
        _refuse_less(job, finish_by, policy)
    spec = JobSpec.model_validate(job.spec)
    if finish_by is not None and spec.session is not None:
        words = "is for programs that end by themselves, not for sessions"
        raise Invalid(f"finish_by: {words}.", field="finish_by")
    if finish_by is not None and spec.begin is not None and finish_by <= spec.begin:
        words = "does not lie after begin; choose a later moment"
        raise Invalid(f"finish_by: {words}.", field="finish_by")
    refuse_by_template(actor, job, "finish_by", finish_by)
    refuse_by_template(actor, job, "finish_by_policy", str(policy))
    # What runs has its time limit before it no more.
    spoken = {"finish_by": finish_by, "finish_by_policy": "keep" if is_live else str(policy)}
    asked = spec.model_copy(update={**spoken, "time_limit": job.time_limit_s})
    try:
        refuse_unfinishable(asked, now, job.booked_in.from_at if job.booked_in else None)
    except SpecInvalid as refused:
        raise Invalid(f"{refused}.", field="finish_by") from None


def _refuse_less(job: Job, finish_by: datetime | None, policy: FinishPolicy) -> None:
    """Who runs may have a later moment or be kept."""
    if policy is FinishPolicy.KEEP:
        return
    is_sooner = job.finish_by is None or finish_by is None or finish_by < job.finish_by
    if is_sooner or job.finish_policy is not FinishPolicy.CANCEL:
        raise Conflict(
            "A running job keeps the time it was given: it may have a later moment, or be kept "
            "when late; pause or cancel it instead."
        )
