"""Submitting, cancelling, pausing, holding and releasing jobs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
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
from scheduler.services.holding.following import followers_of, lock_sets
from scheduler.services.holding.moves import move_held, reconsider
from scheduler.services.holding.obstacles import Obstacle, obstacles_of
from scheduler.services.rows.updating import update_row
from scheduler.services.stopping import request_stop
from scheduler.services.submitting.ahead import look_ahead
from scheduler.services.submitting.opening import Target, check_job, write_jobs
from scheduler.services.submitting.targets import Seen, resolve_target
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.states import (
    AUTOMATIC_HOLDS,
    FINAL_JOB_STATES,
    LIVE_JOB_STATES,
    NOT_RELEASED,
    PAUSES,
    EndReason,
    JobState,
    WaitReason,
    wait_sentence,
)

KEY_LIFE = timedelta(hours=24)
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
    typed_begin: str = "",
) -> Submitted:
    """Accept a job, or say what is wrong with it; once accepted it is never lost.

    Of an array the first task is returned; its set is `job_set`. `seen` is what other submits of
    the same transaction have read, `typed_begin` as in `digest_of`. Raises SpecInvalid for anything
    a person can mend, IdempotencyConflict when the key came with another spec.
    """
    now = now or timezone.now()
    if len(idempotency_key) > MAX_KEY:
        raise SpecInvalid([SpecProblem("idempotency_key", f"is longer than {MAX_KEY} characters")])
    digest = digest_of(spec, typed_begin)
    if idempotency_key and (known := _known(actor, idempotency_key, digest, now)):
        return Submitted(known, is_new=False)
    is_first, seen = seen is None, seen or Seen()
    project, queue = resolve_target(actor, spec, now, seen)
    target = Target(actor, project, queue, now, cloned_from, rerun_of)
    try:
        with transaction.atomic():
            if is_first:
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


def digest_of(spec: JobSpec, typed_begin: str = "") -> str:
    """What tells one spec from another under the same key: of a begin that counted from the submit
    how it was typed, such as `+2h`, for its moment is another one each time."""
    document = spec.document() | ({"begin": typed_begin} if typed_begin else {})
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _known(actor: User, key: str, digest: str, now: datetime) -> Job | None:
    found = SubmitKey.objects.select_related("job__pool").filter(user=actor, key=key).first()
    if found is None:
        return None
    if found.created_at < now - KEY_LIFE:
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
    *, actor: User, job: Job, version: int | None = None, now: datetime | None = None
) -> Job:
    """End a job early; a no-op when it has ended already. Raises SecondNeeded where the actor has
    ended too many jobs of others within the hour."""
    now = now or timezone.now()
    if job.owner_id != actor.pk and job.state not in FINAL_JOB_STATES:
        refuse_alone(actor, 1, now=now)
    return end_job(actor=actor, job=job, version=version, now=now)


@transaction.atomic
def end_job(
    *, actor: User, job: Job, version: int | None = None, now: datetime | None = None
) -> Job:
    """As `cancel_job`, for callers that have counted all that they end."""
    now = now or timezone.now()
    attempt_id = job.attempts.order_by("-number").values_list("pk", flat=True).first()
    attempt = locked_live_attempt(attempt_id) if attempt_id else None
    job = locked_job(job)
    as_operator = check_actor(actor, job, version)
    reason = EndReason.CANCELLED_BY_ADMIN if as_operator else EndReason.CANCELLED_BY_USER
    if job.state in FINAL_JOB_STATES:
        return job
    if job.state in LIVE_JOB_STATES and attempt is not None:
        attempt.job = job
        request_stop(attempt=attempt, reason=reason, now=now, actor=actor)
        transitions.tell_of_job(job)
        return job
    if job.state in LIVE_JOB_STATES:
        raise Conflict("The job is just being started; try again in a second.", code="try_again")
    facts = {"who": actor.get_full_name(), "who_id": actor.pk}
    transitions.move_job(
        job,
        JobState.CANCELLED,
        now=now,
        kind="cancelled",
        actor=actor,
        end_reason=reason,
        end_facts=facts,
    )
    return job


@transaction.atomic
def hold_job(
    *, actor: User, job: Job, version: int | None = None, now: datetime | None = None
) -> Job:
    """Keep a waiting job from starting until it is released, also past its begin time. An
    operator's hold takes the place of the user's own, and of a pause."""
    now = now or timezone.now()
    job = locked_job(job)
    as_operator = check_actor(actor, job, version)
    stays = {WaitReason.HELD_BY_ADMIN} if as_operator else set(WaitReason) - AUTOMATIC_HOLDS
    if job.state == JobState.HELD and job.wait_reason in stays:
        return job
    if job.state not in (JobState.QUEUED, JobState.HELD):
        raise Conflict(f"Only a queued job can be held; this one is {job.state}.")
    reason = WaitReason.HELD_BY_ADMIN if as_operator else WaitReason.HELD_BY_USER
    facts = {"who": actor.get_full_name(), "detail": "ask them to release it"}
    if job.state == JobState.HELD:
        move_held([job], Obstacle(reason, dict(facts)), now=now, actor=actor)
        job.refresh_from_db()
        return job
    transitions.move_job(
        job,
        JobState.HELD,
        now=now,
        kind="held",
        actor=actor,
        wait_reason=reason,
        wait_facts=facts,
    )
    return job


@transaction.atomic
def pause_job(
    *, actor: User, job: Job, version: int | None = None, now: datetime | None = None
) -> Job:
    """Let the program save its work, release its devices, and hold the job with its queue age.

    A job that waits is held. One that is being stopped to queue again is held instead.
    """
    now = now or timezone.now()
    attempt_id = job.attempts.order_by("-number").values_list("pk", flat=True).first()
    attempt = locked_live_attempt(attempt_id) if attempt_id else None
    job = locked_job(job)
    as_operator = check_actor(actor, job, version)
    if job.state in FINAL_JOB_STATES:
        raise Conflict(f"The job has ended: it is {job.state}.")
    if job.state not in LIVE_JOB_STATES:
        return hold_job(actor=actor, job=job, now=now)
    if attempt is None:
        raise Conflict("The job is just being started; try again in a second.", code="try_again")
    attempt.job = job
    reason = EndReason.PAUSED_BY_ADMIN if as_operator else EndReason.PAUSED_BY_USER
    if not request_stop(attempt=attempt, reason=reason, now=now, actor=actor):
        if attempt.stop_reason in PAUSES:
            return job
        raise Conflict("The job is being cancelled.")
    transitions.tell_of_job(job)
    return job


@transaction.atomic
def release_job(
    *, actor: User, job: Job, version: int | None = None, now: datetime | None = None
) -> Job:
    """Let a held or paused job start; what an operator holds only an operator releases.

    It then waits for its dependencies, begin time and array as if it had never been held; what is
    held by these alone is released by itself (Conflict). The pause after failing storage is cut
    short.
    """
    now = now or timezone.now()
    job = locked_job(job)
    as_operator = check_actor(actor, job, version)
    if job.state == JobState.QUEUED:
        return job
    if job.state != JobState.HELD:
        raise Conflict(f"Only a held job can be released; this one is {job.state}.")
    if job.wait_reason == WaitReason.HELD_BY_ADMIN and not (
        as_operator or can(actor, "operate", None)
    ):
        raise Forbidden("An operator holds this job; only an operator may release it.")
    if job.wait_reason == WaitReason.STORAGE_PAUSE:
        update_row(Job, job.pk, {"begin_at": None})
        job.begin_at = None
    if job.wait_reason in NOT_RELEASED:
        raise Conflict(
            f"{wait_sentence(job.wait_reason, job.wait_facts)} It is released by itself then; "
            "to start it sooner, clone it without that."
        )
    obstacle = obstacles_of([job], now=now)[job.pk]
    move_held([job], obstacle, now=now, actor=actor)
    job.refresh_from_db()
    if job.state in FINAL_JOB_STATES:
        reconsider(followers_of([job]), now=now)
    return job


def prune_submit_keys(*, now: datetime) -> int:
    """Forget idempotency keys older than a day."""
    deleted, _ = SubmitKey.objects.filter(created_at__lt=now - KEY_LIFE).delete()
    return deleted
