"""What owners, and who watches, are told of jobs that may not be finished in time: once that it
looks like it, once that it is so. Of the tasks of an array once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db import transaction

from scheduler.models import Job
from scheduler.services.history import record_event, tell_of_job
from scheduler.services.inbox.telling import News, tell
from scheduler.services.inbox.watching import with_watchers
from scheduler.states import (
    WAITING_JOB_STATES,
    Finish,
    JobState,
    NoticeKind,
    moment_words,
    stamp,
)

# Of these somebody may still be told something.
OPEN = (*WAITING_JOB_STATES, JobState.STARTING, JobState.RUNNING)


@transaction.atomic
def tell_at_risk(found: Mapping[int, Finish], *, now: datetime) -> int:
    """Tell the owners of these jobs that they are expected to be late, and note it in their
    history; those that were told, moved or given another moment meanwhile are left alone. Returns
    how many."""
    jobs = [
        job
        for job in _locked(found, WAITING_JOB_STATES)
        if job.told_late is None and job.finish_by == found[job.pk].finish_by
    ]
    texts = {job.pk: found[job.pk].sentence for job in jobs}
    _note(jobs, "finish_at_risk", texts, now, is_over=False)
    return len(jobs)


@transaction.atomic
def tell_missed(numbers: Iterable[int], *, now: datetime) -> int:
    """The same of jobs whose moment is over and that go on all the same."""
    jobs = [
        job
        for job in _locked(numbers, OPEN)
        if not job.told_late
        and job.start_by is None
        and job.finish_by is not None
        and job.finish_by <= now
    ]
    texts = {}
    for job in jobs:
        by = moment_words(job.finish_by) if job.finish_by else ""
        does = "runs on" if job.state == JobState.RUNNING else "still waits and starts all the same"
        texts[job.pk] = f"It had to be finished by {by}. It {does}: it is kept when late."
    _note(jobs, "finish_missed", texts, now, is_over=True)
    return len(jobs)


def tell_ended_late(jobs: Sequence[Job], text: str, *, now: datetime) -> None:
    """Tell the owners of arrays that tasks of theirs are not started any more; single jobs have
    their end, which is told like any other."""
    tasks = [job for job in jobs if job.job_set_id is not None]
    tell(with_watchers((job, _news(job, text, is_over=True)) for job in tasks), now=now)


def _locked(numbers: Iterable[int], states: Iterable[str]) -> list[Job]:
    rows = Job.objects.select_for_update(of=("self",)).select_related("pool")
    return list(rows.filter(pk__in=list(numbers), state__in=list(states)).order_by("pk"))


def _note(
    jobs: Sequence[Job], kind: str, texts: Mapping[int, str], now: datetime, *, is_over: bool
) -> None:
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(told_late=is_over)
    for job in jobs:
        by = stamp(job.finish_by) if job.finish_by else ""
        record_event(job, kind, now=now, detail={"finish_by": by})
        tell_of_job(job)
    news = ((job, _news(job, texts[job.pk], is_over=is_over)) for job in jobs)
    tell(with_watchers(news), now=now)


def _news(job: Job, text: str, *, is_over: bool) -> News:
    is_task = job.job_set_id is not None
    about = f"set:{job.job_set_id}" if is_task else f"job:{job.pk}"
    late = "is late" if is_over else "is expected to be late"
    title = f"{job.name}: a task {late}" if is_task else f"{job.name} {late}"
    at = int(job.finish_by.timestamp()) if job.finish_by else 0
    return News(
        person_id=job.owner_id,
        kind=NoticeKind.JOB_LATE,
        subject=about,
        title=title,
        text=text,
        path=f"/sets/{job.job_set_id}/" if is_task else f"/jobs/{job.pk}/",
        # Given another moment, it may be late anew.
        key=f"{about}:finish:{at}:{'missed' if is_over else 'risk'}",
    )
