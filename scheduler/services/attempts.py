"""What follows from an attempt's ranks: running, ended, retried or final."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db.models import Prefetch, QuerySet

from accounts.statements import BuiltOnce
from scheduler.models import Attempt, Job, Placement
from scheduler.services import transitions, usage
from scheduler.services.checkpoints.losses import lost_work
from scheduler.services.gathering import Step, afterwards
from scheduler.services.holding.following import lock_sets_over
from scheduler.services.holding.recovering import WITHOUT_LIMIT, storage_pause, wait_before_retry
from scheduler.services.holding.retrying import what_follows
from scheduler.services.rows.updating import update_rows
from scheduler.services.sharing.committing import settle_all
from scheduler.services.stopping import request_stop
from scheduler.services.timeline.releasing import release_devices
from scheduler.services.verdicts import node_fault_before, triage, verdict, who_stopped
from scheduler.states import (
    END_RULES,
    INFRASTRUCTURE,
    LIVE_ATTEMPT_STATES,
    PAUSES,
    AttemptState,
    EndReason,
    FailureClass,
    JobState,
    WaitReason,
    loss_sentence,
)

_REPORTED = (
    *("reported", "started_at", "ended_at", "exit_code", "end_reason", "detail", "log_expected"),
    *("checkpoint_pending", "ran_until", "ran_told_at"),
)
_reported_of = attrgetter(*_REPORTED)


def settle(attempt: Attempt, placements: Sequence[Placement], *, now: datetime) -> None:
    """Let the attempt follow its ranks; call under the attempt's row lock, and `lock_sets_over` its
    job where it may end.

    1. A rank failed: the others are stopped, for the same reason.
    2. All ranks run: RUNNING. Some rank prepares: STARTING.
    3. All ranks ended: the devices are charged; once the log is complete and the last checkpoint
       was read back, the attempt ends.
    """
    ended = [p for p in placements if p.ended_at is not None]
    failed = next((p for p in ended if p.end_reason != EndReason.COMPLETED), None)
    if failed and len(ended) < len(placements) and attempt.state != AttemptState.STOPPING:
        request_stop(
            attempt=attempt, reason=EndReason(failed.end_reason), now=now, because_of=[failed]
        )
    elif len(ended) < len(placements):
        _follow_start(attempt, placements, now)
        return
    if len(ended) < len(placements):
        return
    is_whole = all(
        p.log_size >= (p.log_expected or 0) and not p.checkpoint_pending for p in placements
    )
    if attempt.released_at is None:
        attempt.released_at = now
        if not is_whole:
            attempt.save(update_fields=["released_at"])
        usage.accrue_attempt(attempt, now=now)
    if is_whole:
        end_attempt(attempt, placements, now=now)


def _follow_start(attempt: Attempt, placements: Sequence[Placement], now: datetime) -> None:
    up = {AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.ENDED}
    job = attempt.job
    if attempt.state in (AttemptState.ASSIGNED, AttemptState.STARTING) and all(
        p.reported in up for p in placements
    ):
        began = max((p.started_at for p in placements if p.started_at), default=now)
        if transitions.move_attempt(attempt, AttemptState.RUNNING, now=now, started_at=began):
            transitions.move_job(
                job,
                JobState.RUNNING,
                now=now,
                kind="running",
                attempt=attempt,
                detail={"attempt": attempt.number},
                started_at=job.started_at or began,
            )
        return
    begins = attempt.state == AttemptState.ASSIGNED and any(p.reported for p in placements)
    if begins and transitions.move_attempt(attempt, AttemptState.STARTING, now=now):
        transitions.tell_of_job(job)


def end_attempt(attempt: Attempt, placements: Sequence[Placement], *, now: datetime) -> None:
    """End an attempt for good: verdict, money, and what becomes of the job."""
    job = attempt.job
    reason, facts, exit_code = verdict(attempt, placements)
    finding, reason, facts = triage(attempt, placements, reason, facts, exit_code)
    rule = END_RULES[reason]
    # What a person wants of the job holds, whatever the attempt ended for.
    is_wanted = bool(node_fault_before(attempt)) and reason is not EndReason.COMPLETED
    wanted = EndReason(attempt.stop_reason) if is_wanted else reason
    then, ruled = "", dict[str, Any]()
    if not is_wanted:
        then, ruled = what_follows(attempt, placements, reason, finding.failure, exit_code)
    if finding.failure != FailureClass.NONE:
        is_guess = finding.failure in INFRASTRUCTURE and not finding.is_confirmed
        facts["failure"] = str(rule.failure if is_guess else finding.failure)
    started_at = attempt.started_at or min(
        (p.started_at for p in placements if p.started_at), default=None
    )
    if reason is not EndReason.COMPLETED:
        facts |= lost_work(attempt, reason, facts, started_at=started_at, now=now)
        facts |= who_stopped(attempt) if is_wanted else {}
        facts["goes_on"] = bool(then) or wanted in PAUSES
    facts |= ruled
    if then and finding.failure is FailureClass.INFRA_STORAGE and "pause_s" not in ruled:
        facts |= storage_pause(attempt, facts, is_confirmed=finding.is_confirmed)
    if not transitions.move_attempt(
        attempt,
        AttemptState.ENDED,
        now=now,
        end_reason=reason,
        end_facts=facts,
        exit_code=exit_code,
        started_at=started_at,
        released_at=attempt.released_at,
        failure=finding.failure,
        triage={
            "signature": finding.signature,
            "evidence": [asdict(one) for one in finding.evidence],
            "is_confirmed": finding.is_confirmed,
            "then": then,
        },
    ):
        return
    if not rule.billable:
        usage.refund_attempt(attempt)
    afterwards(Step.SETTLE, settle_all, [attempt], now=now)
    detail = {"attempt": attempt.number, "reason": wanted, **facts}
    _conclude(job, attempt, wanted, then, detail, now, started_at)


def _conclude(
    job: Job,
    attempt: Attempt,
    reason: EndReason,
    then: str,
    detail: dict[str, Any],
    now: datetime,
    started_at: datetime | None,
) -> None:
    """Queue the job again in its old place, or give it its final state."""
    common: dict[str, Any] = {
        "now": now,
        "attempt": attempt,
        "end_reason": reason,
        "end_facts": attempt.end_facts,
        "started_at": job.started_at or started_at,
    }
    if then == "free":
        used = job.free_retries_used + (reason not in WITHOUT_LIMIT)
        transitions.move_job(
            job, JobState.QUEUED, kind="requeued", detail=detail, free_retries_used=used, **common
        )
    elif then:
        used = job.user_retries_used + (then == "user")
        transitions.move_job(
            job, JobState.QUEUED, kind="retried", detail=detail, user_retries_used=used, **common
        )
    elif reason in PAUSES:
        transitions.move_job(
            job, JobState.HELD, kind="paused", detail=detail, **_paused(attempt, reason), **common
        )
    else:
        transitions.move_job(
            job,
            END_RULES[reason].final,
            kind="ended",
            detail=detail,
            exit_code=attempt.exit_code,
            **common,
        )
    if job.state == JobState.QUEUED and (waits := wait_before_retry(attempt.end_facts, now)):
        detail = waits["wait_facts"]
        transitions.move_job(job, JobState.HELD, now=now, kind="held", detail=detail, **waits)


def _paused(attempt: Attempt, reason: EndReason) -> dict[str, Any]:
    """Why a paused job waits; what an operator pauses, only an operator resumes."""
    lost, by = f"{loss_sentence(attempt.end_facts)} ".lstrip(), who_stopped(attempt)
    if reason is EndReason.IDLE_PAUSED:
        shown = str(attempt.end_facts.get("evidence", ""))
        lost = f"{shown[:1].upper()}{shown[1:]}. {lost}"
    if reason is EndReason.PAUSED_BY_ADMIN:
        begin = "It is paused" if "because" in by else "paused"
        detail, held = f"{begin}. {lost}Ask them to resume it.", WaitReason.HELD_BY_ADMIN
    else:
        detail, held = lost, WaitReason.PAUSED
    return {"wait_reason": held, "wait_facts": {**by, "detail": detail}}


def keep_reports(placements: Iterable[Placement]) -> None:
    """Write what was reported alone: the log's size belongs to `append_log`, at work meanwhile."""
    by_key = sorted(placements, key=lambda placement: placement.pk)
    update_rows(Placement, _REPORTED, [(one.pk, _reported_of(one)) for one in by_key])


def read_log_sizes(placements: Iterable[Placement]) -> None:
    """How much of the logs is there, read after `keep_reports` locked the rows.

    Whoever comes second, the end of a rank or the last of its log, so sees the other.
    """
    ended = {placement.pk: placement for placement in placements if placement.ended_at is not None}
    for pk, size, lines in _LOG_SIZES.rows(list(ended)):
        ended[pk].log_size, ended[pk].log_lines = size, lines


def _log_sizes_of(ids: Sequence[int]) -> QuerySet[Placement, tuple[Any, ...]]:
    rows = Placement.objects.filter(pk__in=ids).order_by()
    return rows.values_list("pk", "log_size", "log_lines")


_LOG_SIZES = BuiltOnce(_log_sizes_of)


def abandon_placements(
    attempt: Attempt, given_up: Iterable[Placement], reason: EndReason, detail: str, now: datetime
) -> None:
    """Count ranks as ended without their node's word; call under the attempt's row lock.

    Only for nodes that are lost or never took the assignment: their devices are released.
    """
    lock_sets_over([attempt.job])
    for placement in given_up:
        if placement.ended_at is None:
            placement.reported = AttemptState.ENDED
            placement.ended_at = now
            placement.end_reason = reason
            placement.detail = detail
            placement.log_expected = placement.log_size
            keep_reports([placement])
            release_devices(placement, now=now)
    placements = list(attempt.placements.select_related("node").order_by("rank"))
    settle(attempt, placements, now=now)


def locked_live_attempt(attempt_id: int) -> Attempt | None:
    """The attempt under its row lock with its job, or None if it has ended meanwhile."""
    return locked_live_attempts(Attempt.objects.filter(pk=attempt_id)).first()


def locked_live_attempts(chosen: QuerySet[Attempt]) -> QuerySet[Attempt]:
    """Those of `chosen` that live, under their row locks, each with its job and the job's pool.

    The jobs are read by a statement of their own once the locks are held. Joined, they would come
    from before the wait: PostgreSQL reads only the locked rows anew, and a job that was moved by
    who held the lock would be seen where it was, its next move miss it.
    """
    return (
        chosen.select_for_update(of=("self",))
        .filter(state__in=LIVE_ATTEMPT_STATES)
        .order_by("pk")
        .prefetch_related(Prefetch("job", Job.objects.select_related("pool")))
    )
