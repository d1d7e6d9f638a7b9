"""What the owners of jobs are told: ends, failures, and what had to give way.

Of an array the first failure, the end of the whole, and what another person cancels with one word
are told, not each of its tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db.models import Count, Q

from scheduler.models import Job
from scheduler.services.inbox.holds import word_key
from scheduler.services.inbox.telling import News, tell
from scheduler.states import (
    FINAL_JOB_STATES,
    EndReason,
    JobState,
    NoticeKind,
    end_sentence,
)

_KINDS = {
    JobState.SUCCEEDED: (NoticeKind.JOB_SUCCEEDED, "has finished"),
    JobState.FAILED: (NoticeKind.JOB_FAILED, "has failed"),
    JobState.CANCELLED: (NoticeKind.JOB_CANCELLED, "was cancelled"),
}


def tell_of_ends(jobs: Sequence[Job], *, now: datetime) -> None:
    """Tell the owners of jobs that have just ended or lost their place; one insert for all."""
    news = [
        *_singles([job for job in jobs if job.job_set_id is None]),
        *_sets([job for job in jobs if job.job_set_id is not None]),
    ]
    tell(news, now=now)


def _singles(jobs: Sequence[Job]) -> Iterator[News]:
    for job in jobs:
        if _is_cancelled_by_its_owner(job):
            continue
        kind, words = _kind_of(job)
        yield News(
            person_id=job.owner_id,
            kind=kind,
            subject=f"job:{job.pk}",
            title=f"{job.name} {words}",
            text=_why(job),
            # What idled is started again from its own page.
            path=f"/{'sessions' if kind is NoticeKind.SESSION_IDLE else 'jobs'}/{job.pk}/",
            key=f"job:{job.pk}:{job.version}:{job.state}",
        )


def _kind_of(job: Job) -> tuple[NoticeKind, str]:
    if job.state == JobState.SUCCEEDED and job.end_reason == EndReason.SESSION_IDLE:
        return NoticeKind.SESSION_IDLE, "was idle and has been stopped"
    if job.end_reason == EndReason.IDLE_STOPPED:
        return NoticeKind.JOB_IDLE, "was stopped: its GPUs did little"
    if job.end_reason == EndReason.BOOKING_ENDED and job.end_facts.get("because"):
        return NoticeKind.JOB_CANCELLED, "was ended with its booking"
    interrupted = (NoticeKind.JOB_PREEMPTED, "was interrupted and waits again")
    return _KINDS.get(JobState(job.state), interrupted)


def _why(job: Job) -> str:
    return end_sentence(EndReason(job.end_reason), job.end_facts) if job.end_reason else ""


def _is_cancelled_by_its_owner(job: Job) -> bool:
    """Nobody needs to be told of what they did."""
    is_cancelled = job.state == JobState.CANCELLED
    is_by_people = job.end_reason == EndReason.CANCELLED_BY_USER
    return is_cancelled and is_by_people and job.end_facts.get("who_id") == job.owner_id


def _tasks_cancelled(jobs: Sequence[Job]) -> Iterator[News]:
    """Tasks that another person cancelled, once for all of an array with the same word."""
    for job in jobs:
        is_told = job.state in FINAL_JOB_STATES and job.end_facts.get("because")
        if is_told and not _is_cancelled_by_its_owner(job):
            yield News(
                person_id=job.owner_id,
                kind=NoticeKind.JOB_CANCELLED,
                subject=f"set:{job.job_set_id}",
                title=f"{job.name}: tasks were ended",
                text=_why(job),
                path=f"/sets/{job.job_set_id}/",
                key=f"set:{job.job_set_id}:cancelled:{word_key(job.end_facts)}",
            )


def _sets(jobs: Sequence[Job]) -> Iterator[News]:
    yield from _tasks_cancelled(jobs)
    ended = {
        job.job_set_id: job
        for job in jobs
        if job.state in FINAL_JOB_STATES and not _is_cancelled_by_its_owner(job)
    }
    for job in jobs:
        if job.state == JobState.FAILED and not job.end_facts.get("because"):
            yield News(
                person_id=job.owner_id,
                kind=NoticeKind.JOB_FAILED,
                subject=f"set:{job.job_set_id}",
                title=f"A task of array {job.job_set_id} has failed: {job.name}",
                text=_why(job),
                path=f"/jobs/{job.pk}/",
                key=f"set:{job.job_set_id}:failed",
            )
    if not ended:
        return
    counts = (
        Job.objects.filter(job_set_id__in=ended)
        .order_by()
        .values("job_set_id")
        .annotate(
            all=Count("pk"),
            well=Count("pk", filter=Q(state=JobState.SUCCEEDED)),
            over=Count("pk", filter=Q(state__in=FINAL_JOB_STATES)),
        )
    )
    for row in counts:
        job = ended[row["job_set_id"]]
        if row["over"] < row["all"]:
            continue
        is_well = row["well"] == row["all"]
        yield News(
            person_id=job.owner_id,
            kind=NoticeKind.JOB_SUCCEEDED if is_well else NoticeKind.JOB_FAILED,
            subject=f"set:{job.job_set_id}",
            title=f"Array {job.job_set_id} has ended: {row['well']} of {row['all']} tasks well",
            text="",
            path=f"/sets/{job.job_set_id}/",
            key=f"set:{job.job_set_id}:over",
        )
