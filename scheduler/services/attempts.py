"""What nodes report of attempts, and what follows: running, ended, retried or final."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from scheduler.conf import load_conf
from scheduler.models import Attempt, Job, Node, Placement
from scheduler.services import transitions, usage
from scheduler.services.placing import (
    LeaseLost,
    PlacedOn,
    Start,
    record_waits,
    release_devices,
    start_attempts,
)
from scheduler.services.stopping import request_stop
from scheduler.services.verdicts import verdict
from scheduler.states import (
    END_RULES,
    LIVE_ATTEMPT_STATES,
    MAX_FREE_RETRIES,
    AttemptState,
    EndReason,
    EndRule,
    JobState,
)
from scheduler.wire.messages import AttemptReport

__all__ = [
    "LeaseLost",
    "PlacedOn",
    "Start",
    "abandon_placements",
    "end_attempt",
    "record_waits",
    "report_attempts",
    "settle",
    "start_attempts",
]

# These ends are the platform's own doing; they may happen any number of times.
_WITHOUT_LIMIT = frozenset({EndReason.PREEMPTED, EndReason.NODE_DRAINED})
_REPORTED = "reported started_at ended_at exit_code end_reason detail log_expected".split()
_MAX_PATCH = 256 * 1024


@transaction.atomic
def report_attempts(*, node: Node, reports: Sequence[AttemptReport], now: datetime) -> set[int]:
    """Take in what a node says of its attempts; returns the fences it may forget.

    Reports are repeated until forgotten, late, or about attempts that were given up: only news
    about a live attempt on this very node changes anything.
    """
    known = {
        placement.attempt_id: placement
        for placement in Placement.objects.filter(
            node=node, attempt_id__in=[report.fence for report in reports]
        ).select_related("attempt")
    }
    forget = set()
    news = []
    for report in reports:
        placement = known.get(report.fence)
        if placement is None or placement.attempt.state == AttemptState.ENDED:
            if report.state is AttemptState.ENDED:
                forget.add(report.fence)
        elif placement.rank == report.rank and _is_news(placement, report):
            news.append(report)
    if news:
        _take_in(node, sorted(news, key=lambda report: report.fence), now)
    return forget


def _is_news(placement: Placement, report: AttemptReport) -> bool:
    if placement.ended_at is not None:
        return False
    return (
        placement.reported != report.state
        or (report.master_port is not None and placement.attempt.master_port is None)
        or bool(report.code_commit and not placement.attempt.code_commit)
    )


def _take_in(node: Node, news: Sequence[AttemptReport], now: datetime) -> None:
    """Under the attempts' row locks, so that the last two ranks to end see each other."""
    locked = (
        Attempt.objects.select_for_update()
        .filter(pk__in=[report.fence for report in news])
        .order_by("pk")
        .in_bulk()
    )
    jobs = Job.objects.select_related("pool").in_bulk([a.job_id for a in locked.values()])
    for report in news:
        attempt = locked[report.fence]
        if attempt.state == AttemptState.ENDED:
            continue
        attempt.job = jobs[attempt.job_id]
        placements = list(attempt.placements.select_related("node").order_by("rank"))
        mine = next(p for p in placements if p.node_id == node.pk)
        if mine.ended_at is None:
            _apply(attempt, mine, report, placements, now)
            settle(attempt, placements, now=now)


def _apply(
    attempt: Attempt,
    mine: Placement,
    report: AttemptReport,
    placements: Sequence[Placement],
    now: datetime,
) -> None:
    _note_facts(attempt, report)
    if mine.rank == 0 and report.master_port is not None and attempt.master_port is None:
        attempt.master_port = report.master_port
        attempt.save(update_fields=["master_port"])
        transitions.change_desired(p.node_id for p in placements if p.rank > 0)
    mine.reported = report.state
    if report.started_at is not None and mine.started_at is None:
        mine.started_at = _sane(report.started_at, attempt.assigned_at, now)
    if report.state is AttemptState.ENDED:
        mine.ended_at = now
        mine.exit_code = report.exit_code
        mine.end_reason = report.end_reason or EndReason.START_FAILED
        mine.detail = report.detail[:4000]
        # The cap cuts the log; bytes beyond it will never come and are not waited for.
        mine.log_expected = min(report.log_size, load_conf().log_cap_mib * 1024 * 1024)
        release_devices(mine, now=now)
    _keep(mine)


def _keep(placement: Placement) -> None:
    """Write what was reported alone: the log's size belongs to `append_log`, at work meanwhile."""
    placement.save(update_fields=_REPORTED)
    placement.refresh_from_db(fields=["log_size", "log_lines"])


def _note_facts(attempt: Attempt, report: AttemptReport) -> None:
    changed = []
    if report.code_commit and not attempt.code_commit:
        attempt.code_commit = report.code_commit[:64]
        attempt.code_patch = report.code_patch[:_MAX_PATCH]
        changed += ["code_commit", "code_patch"]
    if report.resumed_from and not attempt.resume_from:
        attempt.resume_from = report.resumed_from[:1024]
        changed.append("resume_from")
    if changed:
        attempt.save(update_fields=changed)


def _sane(epoch_s: float, earliest: datetime, latest: datetime) -> datetime:
    """A node's own time, kept within what the server knows; nothing but display rests on it."""
    try:
        moment = datetime.fromtimestamp(epoch_s, UTC)
    except (OverflowError, ValueError, OSError):
        return latest
    return min(max(moment, earliest), latest)


def settle(attempt: Attempt, placements: Sequence[Placement], *, now: datetime) -> None:
    """Let the attempt follow its ranks; call under the attempt's row lock.

    1. A rank failed: the others are stopped, for the same reason.
    2. All ranks run: RUNNING. Some rank prepares: STARTING.
    3. All ranks ended: the devices are charged; once the log is complete, the attempt ends.
    """
    ended = [p for p in placements if p.ended_at is not None]
    failed = next((p for p in ended if p.end_reason != EndReason.COMPLETED), None)
    if failed and len(ended) < len(placements) and attempt.state != AttemptState.STOPPING:
        request_stop(
            attempt=attempt, reason=EndReason(failed.end_reason), now=now, because_of=failed
        )
    elif len(ended) < len(placements):
        _follow_start(attempt, placements, now)
        return
    if len(ended) < len(placements):
        return
    if attempt.released_at is None:
        attempt.released_at = now
        attempt.save(update_fields=["released_at"])
        usage.accrue_attempt(attempt, now=now)
    if all(p.log_size >= (p.log_expected or 0) for p in placements):
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
    rule = END_RULES[reason]
    started_at = attempt.started_at or min(
        (p.started_at for p in placements if p.started_at), default=None
    )
    if not transitions.move_attempt(
        attempt,
        AttemptState.ENDED,
        now=now,
        end_reason=reason,
        end_facts=facts,
        exit_code=exit_code,
        started_at=started_at,
    ):
        return
    if not rule.billable:
        usage.refund_attempt(attempt)
    detail = {"attempt": attempt.number, "reason": reason, **facts}
    _conclude(job, attempt, reason, rule, detail, now, started_at)


def _conclude(
    job: Job,
    attempt: Attempt,
    reason: EndReason,
    rule: EndRule,
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
    if rule.retry_free and (reason in _WITHOUT_LIMIT or job.free_retries_used < MAX_FREE_RETRIES):
        used = job.free_retries_used + (reason not in _WITHOUT_LIMIT)
        transitions.move_job(
            job, JobState.QUEUED, kind="requeued", detail=detail, free_retries_used=used, **common
        )
    elif rule.uses_user_retry and job.user_retries_used < job.retries:
        used = job.user_retries_used + 1
        transitions.move_job(
            job, JobState.QUEUED, kind="retried", detail=detail, user_retries_used=used, **common
        )
    else:
        transitions.move_job(
            job, rule.final, kind="ended", detail=detail, exit_code=attempt.exit_code, **common
        )


def abandon_placements(
    attempt: Attempt, given_up: Iterable[Placement], reason: EndReason, detail: str, now: datetime
) -> None:
    """Count ranks as ended without their node's word; call under the attempt's row lock.

    Only for nodes that are lost or never took the assignment: their devices are released.
    """
    for placement in given_up:
        if placement.ended_at is None:
            placement.reported = AttemptState.ENDED
            placement.ended_at = now
            placement.end_reason = reason
            placement.detail = detail
            placement.log_expected = placement.log_size
            _keep(placement)
            release_devices(placement, now=now)
    placements = list(attempt.placements.select_related("node").order_by("rank"))
    settle(attempt, placements, now=now)


def locked_live_attempt(attempt_id: int) -> Attempt | None:
    """The attempt under its row lock with its job, or None if it has ended meanwhile."""
    return (
        Attempt.objects.select_for_update(of=("self",))
        .filter(pk=attempt_id, state__in=LIVE_ATTEMPT_STATES)
        .select_related("job__pool")
        .first()
    )
