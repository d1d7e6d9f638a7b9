"""What people do by hand to jobs that wait or run: hold, pause, release."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from scheduler.models import Job
from scheduler.models.jobs import AFTER_PAUSE
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.gathering import Step, afterwards
from scheduler.services.holding.following import followers_of
from scheduler.services.holding.moves import move_held, reconsider
from scheduler.services.holding.obstacles import Obstacle, obstacles_of
from scheduler.services.holding.reasons import by_whom, said_of, said_of_release, word_of
from scheduler.services.inbox.holds import tell_of_holds, tell_of_release
from scheduler.services.jobs import check_actor, locked_job
from scheduler.services.rows.updating import update_row
from scheduler.services.stopping import request_stop
from scheduler.states import (
    AUTOMATIC_HOLDS,
    FINAL_JOB_STATES,
    LIVE_JOB_STATES,
    NOT_RELEASED,
    PAUSES,
    RETRY_PAUSES,
    EndReason,
    JobState,
    WaitReason,
    wait_sentence,
)


@transaction.atomic
def hold_job(
    *,
    actor: User,
    job: Job,
    reason: str = "",
    version: int | None = None,
    now: datetime | None = None,
) -> Job:
    """Keep a waiting job from starting until it is released, also past its begin time. An
    operator's hold takes the place of the user's own, and of a pause. Raises ReasonNeeded without a
    reason for another's job."""
    now = now or timezone.now()
    job = locked_job(job)
    as_operator = check_actor(actor, job, version)
    stays = {WaitReason.HELD_BY_ADMIN} if as_operator else set(WaitReason) - AUTOMATIC_HOLDS
    if job.state == JobState.HELD and job.wait_reason in stays:
        return job
    if job.state not in (JobState.QUEUED, JobState.HELD):
        raise Conflict(f"Only a queued job can be held; this one is {job.state}.")
    said = said_of(actor, job, reason)
    hold = WaitReason.HELD_BY_ADMIN if as_operator else WaitReason.HELD_BY_USER
    remedy = "Ask them to release it." if said else "ask them to release it"
    facts = by_whom(actor, said) | {"detail": remedy}
    if job.end_reason in PAUSES:
        facts[AFTER_PAUSE] = True
    if job.state == JobState.HELD:
        move_held([job], Obstacle(hold, dict(facts)), now=now, actor=actor, because=said)
        job.refresh_from_db()
        afterwards(Step.TELL, tell_of_holds, [job], now=now)
        return job
    transitions.move_job(
        job,
        JobState.HELD,
        now=now,
        kind="held",
        actor=actor,
        detail=word_of(said),
        wait_reason=hold,
        wait_facts=facts,
    )
    return job


@transaction.atomic
def pause_job(
    *,
    actor: User,
    job: Job,
    reason: str = "",
    version: int | None = None,
    now: datetime | None = None,
) -> Job:
    """Let the program save its work, release its devices, and hold the job with its queue age.

    A job that waits is held. One that is being stopped to queue again is held instead. Raises
    ReasonNeeded without a reason for another's job.
    """
    now = now or timezone.now()
    attempt_id = job.attempts.order_by("-number").values_list("pk", flat=True).first()
    attempt = locked_live_attempt(attempt_id) if attempt_id else None
    job = locked_job(job)
    as_operator = check_actor(actor, job, version)
    if job.state in FINAL_JOB_STATES:
        raise Conflict(f"The job has ended: it is {job.state}.")
    if job.state not in LIVE_JOB_STATES:
        return hold_job(actor=actor, job=job, reason=reason, now=now)
    if attempt is None:
        raise Conflict("The job is just being started; try again in a second.", code="try_again")
    attempt.job = job
    pause = EndReason.PAUSED_BY_ADMIN if as_operator else EndReason.PAUSED_BY_USER
    said = said_of(actor, job, reason)
    if not request_stop(attempt=attempt, reason=pause, now=now, actor=actor, because=said):
        if attempt.stop_reason in PAUSES:
            return job
        raise Conflict("The job is being cancelled.")
    transitions.tell_of_job(job)
    return job


@transaction.atomic
def release_job(
    *,
    actor: User,
    job: Job,
    reason: str = "",
    version: int | None = None,
    now: datetime | None = None,
) -> Job:
    """Let a held or paused job start; what an operator holds only an operator releases.

    It then waits for its dependencies, begin time and array as if it had never been held; what is
    held by these alone is released by itself (Conflict). The pause before a retry is cut
    short. Raises ReasonNeeded without a reason against the owner's own hold.
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
    is_own_pause = job.wait_reason in RETRY_PAUSES
    if is_own_pause:
        update_row(Job, job.pk, {"begin_at": None})
        job.begin_at = None
    if job.wait_reason in NOT_RELEASED:
        raise Conflict(
            f"{wait_sentence(job.wait_reason, job.wait_facts)} It is released by itself then; "
            "to start it sooner, clone it without that."
        )
    said = said_of_release(actor, job, reason)
    obstacle = obstacles_of([job], now=now)[job.pk]
    move_held([job], obstacle, now=now, actor=actor, because=said)
    job.refresh_from_db()
    if (said and job.owner_id != actor.pk) or not is_own_pause:
        tell_of_release(job, actor, said, now=now)
    if job.state in FINAL_JOB_STATES:
        reconsider(followers_of([job]), now=now)
    return job
