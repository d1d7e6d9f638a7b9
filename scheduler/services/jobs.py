"""Submitting and cancelling jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from scheduler.failpoints import reach
from scheduler.models import Job, JobSet, SubmitKey
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.errors import (
    Conflict,
    Forbidden,
    IdempotencyConflict,
    StaleVersion,
)
from scheduler.services.holding.alone import refuse_alone
from scheduler.services.holding.following import lock_sets
from scheduler.services.holding.reasons import by_whom, said_of, word_of
from scheduler.services.stopping import request_stop
from scheduler.services.submitting.ahead import look_ahead
from scheduler.services.submitting.groups import lock_groups
from scheduler.services.submitting.opening import Target, check_job, write_jobs
from scheduler.services.submitting.targets import Seen, resolve_target
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.states import (
    FINAL_JOB_STATES,
    LIVE_JOB_STATES,
    EndReason,
    JobState,
)

KEY_LIFE = timedelta(hours=24)
# Those of forms, by what they begin with: a tab stays open for days after its form was sent.
FORM_KEY = "form:"
FORM_KEY_LIFE = timedelta(days=30)
NOTHING_TYPED: Mapping[str, str] = {}
MAX_KEY = 128


@dataclass(frozen=True, slots=True)
class Submitted:
    """`is_new` is False when the idempotency key had brought this job before."""

    job: Job
    is_new: bool


def submit_job(
    *,
    actor: User,
    spec: JobSpec,
    idempotency_key: str = "",
    cloned_from: Job | None = None,
    rerun_of: JobSet | None = None,
    now: datetime | None = None,
    seen: Seen | None = None,
    typed: Mapping[str, str] = NOTHING_TYPED,
) -> Submitted:
    """Accept a job, or say what is wrong with it; once accepted it is never lost.

    Of an array the first task is returned; its set is `job_set`. `seen` is what other submits of
    the same transaction have read, `typed` as in `digest_of`. Raises SpecInvalid for anything
    a person can mend, IdempotencyConflict when the key came with another spec.
    """
    now = now or timezone.now()
    if len(idempotency_key) > MAX_KEY:
        raise SpecInvalid([SpecProblem("idempotency_key", f"is longer than {MAX_KEY} characters")])
    digest = digest_of(spec, typed)
    if idempotency_key and (known := _known(actor, idempotency_key, digest, now)):
        return Submitted(known, is_new=False)
    is_first, seen = seen is None, seen or Seen()
    project, queue = resolve_target(actor, spec, now, seen)
    target = Target(actor, project, queue, now, cloned_from, rerun_of)
    try:
        with transaction.atomic():
            if is_first:
                lock_groups(actor, [] if rerun_of else [spec], seen)
                look_ahead(seen, actor, [spec])
            [job] = write_jobs([check_job(target, spec, seen)])
            if idempotency_key:
                SubmitKey.objects.create(
                    user=actor,
                    key=idempotency_key,
                    request_hash=digest,
                    job=job,
                    created_at=now,
                )
        reach("portal.submitted")
    except IntegrityError:
        # The same key raced us; its job is the answer.
        if idempotency_key and (known := _known(actor, idempotency_key, digest, now)):
            return Submitted(known, is_new=False)
        raise
    return Submitted(job, is_new=True)


def digest_of(spec: JobSpec, typed: Mapping[str, str] = NOTHING_TYPED) -> str:
    """What tells one spec from another under the same key: of moments that counted from the submit
    (`begin`, `finish_by`) how they were typed, such as `+2h`, for they are others each time."""
    document = {**spec.document(), **typed}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _known(actor: User, key: str, digest: str, now: datetime) -> Job | None:
    found = SubmitKey.objects.select_related("job__pool").filter(user=actor, key=key).first()
    if found is None:
        return None
    if found.created_at < now - (FORM_KEY_LIFE if key.startswith(FORM_KEY) else KEY_LIFE):
        found.delete()
        return None
    is_beyond = actor.bound_project not in (None, found.job.project_id)
    if found.request_hash != digest or is_beyond:
        raise IdempotencyConflict(
            "This idempotency key came with another job before. Use a new key.",
            field="idempotency_key",
        )
    return found.job


def check_actor(actor: User, job: Job, version: int | None) -> bool:
    """Whether the actor acts as an operator; raises when the actor may not act at all."""
    if version is not None and version != job.version:
        raise StaleVersion("The job has changed since you read it.", facts={"version": job.version})
    if job.owner_id == actor.pk and can(actor, "submit_job", job.project):
        return False
    if can(actor, "manage_project", job.project):
        return False
    if can(actor, "operate", None):
        return True
    raise Forbidden("Only the job's owner, a team lead or an operator may do this.")


def locked_job(job: Job) -> Job:
    """The job as it is now, under its row lock; that of its array comes before it."""
    if job.job_set_id:
        lock_sets([job.pk])
    return (
        Job.objects.select_for_update(of=("self",))
        .select_related("pool", "project__team", "owner")
        .get(pk=job.pk)
    )


@transaction.atomic
def cancel_job(
    *,
    actor: User,
    job: Job,
    reason: str = "",
    version: int | None = None,
    now: datetime | None = None,
) -> Job:
    """End a job early; a no-op when it has ended already. Raises SecondNeeded where the actor has
    ended too many jobs of others within the hour, ReasonNeeded without a reason for another's."""
    now = now or timezone.now()
    if job.owner_id != actor.pk and job.state not in FINAL_JOB_STATES:
        refuse_alone(actor, 1, now=now)
    return end_job(actor=actor, job=job, reason=reason, version=version, now=now)


@transaction.atomic
def end_job(
    *,
    actor: User,
    job: Job,
    reason: str = "",
    version: int | None = None,
    now: datetime | None = None,
) -> Job:
    """As `cancel_job`, for callers that have counted all that they end."""
    now = now or timezone.now()
    attempt_id = job.attempts.order_by("-number").values_list("pk", flat=True).first()
    attempt = locked_live_attempt(attempt_id) if attempt_id else None
    job = locked_job(job)
    as_operator = check_actor(actor, job, version)
    end = EndReason.CANCELLED_BY_ADMIN if as_operator else EndReason.CANCELLED_BY_USER
    if job.state in FINAL_JOB_STATES:
        return job
    said = said_of(actor, job, reason)
    if job.state in LIVE_JOB_STATES and attempt is not None:
        attempt.job = job
        request_stop(attempt=attempt, reason=end, now=now, actor=actor, because=said)
        transitions.tell_of_job(job)
        return job
    if job.state in LIVE_JOB_STATES:
        raise Conflict("The job is just being started; try again in a second.", code="try_again")
    transitions.move_job(
        job,
        JobState.CANCELLED,
        now=now,
        kind="cancelled",
        actor=actor,
        detail=word_of(said),
        end_reason=end,
        end_facts=by_whom(actor, said),
    )
    return job


def prune_submit_keys(*, now: datetime) -> int:
    """Forget idempotency keys that are older than they are good for."""
    is_over = Q(created_at__lt=now - KEY_LIFE) & ~Q(key__startswith=FORM_KEY)
    is_over |= Q(created_at__lt=now - FORM_KEY_LIFE)
    deleted, _ = SubmitKey.objects.filter(is_over).delete()
    return deleted
