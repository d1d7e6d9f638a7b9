"""What the owners of jobs are told: ends, failures, and what had to give way.

Of an array the first failure, the end of the whole, and what another person cancels with one word
are told, not each of its tasks, unless it asks for that (`notify`). What a job asks for goes before
what its owner chose; what others did to it is told as its owner chose. Who watches a job is told
of its ends and interruptions, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import Count, Q

from scheduler.models import Job
from scheduler.services.inbox.holds import word_key
from scheduler.services.inbox.telling import News, tell
from scheduler.services.inbox.watching import for_watchers
from scheduler.states import (
    FINAL_JOB_STATES,
    EndReason,
    JobState,
    NoticeKind,
    Wish,
    end_sentence,
    is_wished,
)

_KINDS = {
    JobState.SUCCEEDED: (NoticeKind.JOB_SUCCEEDED, "has finished"),
    JobState.FAILED: (NoticeKind.JOB_FAILED, "has failed"),
    JobState.CANCELLED: (NoticeKind.JOB_CANCELLED, "was cancelled"),
}
# Acts of rules and people: told as the owner chose.
_OTHERS = frozenset({NoticeKind.SESSION_IDLE, NoticeKind.JOB_IDLE})
_IN_COURSE = {
    "started": "has started",
    "again": "was interrupted and waits again",
}


def tell_of_ends(jobs: Sequence[Job], *, now: datetime) -> None:
    """Tell the owners of jobs that have just ended or lost their place; one insert for all."""
    singles = [job for job in jobs if job.job_set_id is None]
    tasks = [job for job in jobs if job.job_set_id is not None]
    alone = [(job, _single(job)) for job in singles]
    whole = list(_whole(tasks))
    in_sets = [*_tasks_cancelled(tasks), *_failures(tasks)]
    each = [(job, _single(job)) for job in tasks if _asks_for_tasks(job)]
    news = [
        *(one for job, one in (*alone, *each) if not _is_cancelled_by_its_owner(job)),
        *_sets_again(tasks),
        *(one for _job, one in in_sets),
        *(one for job, one in whole if not _is_cancelled_by_its_owner(job)),
        *for_watchers([*alone, *in_sets, *whole], by=_who_ended),
    ]
    tell(news, now=now)


def tell_of_starts(jobs: Sequence[Job], *, now: datetime) -> None:
    """Tell the owners of jobs that ask for it that they run, of each once and not of its further
    attempts; of an array its first task."""
    asking = [job for job in jobs if is_wished(job.notify, Wish.START)]
    if asking:
        tell((_in_course(job, NoticeKind.JOB_STARTED, "started") for job in asking), now=now)


def started_news(job: Job) -> News:
    """That it has started, of a task that a first one of its array has; for who watches it."""
    one = _in_course(job, NoticeKind.JOB_STARTED, "started", is_once=True)
    return replace(one, asked=None)


def _who_ended(job: Job) -> object:
    return job.end_facts.get("who_id")


def _asks_for_tasks(job: Job) -> bool:
    return bool(is_wished(job.notify, Wish.ARRAY))


def about(job: Job) -> str:
    """What news of it are about: of a task its array, so that one mute is for all of them."""
    return f"job:{job.pk}" if job.job_set_id is None else f"set:{job.job_set_id}"


def _in_course(job: Job, kind: NoticeKind, what: str, *, is_once: bool = False) -> News:
    """What a job asks to be told of while it is not over; of an array once, but where it asks for
    each task and not `is_once`."""
    is_whole = job.job_set_id is not None and (is_once or not _asks_for_tasks(job))
    verb = _IN_COURSE[what]
    return News(
        person_id=job.owner_id,
        kind=kind,
        subject=about(job),
        title=f"Array {job.job_set_id}: a first task {verb}" if is_whole else f"{job.name} {verb}",
        text=_why(job) if kind is NoticeKind.JOB_PREEMPTED else "",
        path=f"/sets/{job.job_set_id}/" if is_whole else f"/jobs/{job.pk}/",
        key=f"{about(job)}:{what}" if is_whole else f"job:{job.pk}:{what}",
        asked=True,
    )


def _single(job: Job) -> News:
    kind, words = _kind_of(job)
    return News(
        person_id=job.owner_id,
        kind=kind,
        subject=about(job),
        asked=_is_asked(job, kind),
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
    if job.end_reason == EndReason.SUPERSEDED:
        return NoticeKind.JOB_CANCELLED, _superseded_words(job)
    interrupted = (NoticeKind.JOB_PREEMPTED, "was interrupted and waits again")
    return _KINDS.get(JobState(job.state), interrupted)


def _is_asked(job: Job, kind: NoticeKind) -> bool | None:
    """Whether the job asks to be told of what has just happened to it."""
    if kind in _OTHERS or job.end_facts.get("because"):
        return None
    if job.end_reason == EndReason.SUPERSEDED:
        return _is_asked_superseded(job)
    if job.state == JobState.SUCCEEDED:
        return is_wished(job.notify, Wish.END)
    if job.state in FINAL_JOB_STATES:
        return is_wished(job.notify, Wish.END, Wish.FAIL)
    return is_wished(job.notify, *_again(job))


def _is_asked_superseded(job: Job) -> bool:
    """Its owner submitted the newer one, and is told only where the job asks for that; programs and
    chats of teams are told."""
    return bool(is_wished(job.notify, Wish.END, Wish.FAIL))


def _superseded_words(job: Job) -> str:
    """Names no person: programs and chats are told it, too."""
    return f"was cancelled for {job.end_facts.get('newer', 'a newer one')}"


def _again(job: Job) -> tuple[Wish, ...]:
    """What a job may ask for that is told when it waits for another attempt."""
    if job.end_reason in (EndReason.PREEMPTED, EndReason.RESIZED):
        return Wish.RETRY, Wish.PREEMPT
    return (Wish.RETRY,)


def _why(job: Job) -> str:
    return end_sentence(EndReason(job.end_reason), job.end_facts) if job.end_reason else ""


def _is_cancelled_by_its_owner(job: Job) -> bool:
    """Nobody needs to be told of what they did."""
    is_cancelled = job.state == JobState.CANCELLED
    is_by_people = job.end_reason == EndReason.CANCELLED_BY_USER
    return is_cancelled and is_by_people and job.end_facts.get("who_id") == job.owner_id


def _tasks_cancelled(jobs: Sequence[Job]) -> Iterator[tuple[Job, News]]:
    """Tasks that another person cancelled, once for all of an array with the same word."""
    for job in jobs:
        is_told = job.state in FINAL_JOB_STATES and job.end_facts.get("because")
        if is_told and not _is_cancelled_by_its_owner(job):
            yield (
                job,
                News(
                    person_id=job.owner_id,
                    kind=NoticeKind.JOB_CANCELLED,
                    subject=f"set:{job.job_set_id}",
                    title=f"{job.name}: tasks were ended",
                    text=_why(job),
                    path=f"/sets/{job.job_set_id}/",
                    key=f"set:{job.job_set_id}:cancelled:{word_key(job.end_facts)}",
                ),
            )


def _sets_again(jobs: Sequence[Job]) -> Iterator[News]:
    for job in jobs:
        is_again = job.state not in FINAL_JOB_STATES and not _asks_for_tasks(job)
        if is_again and is_wished(job.notify, *_again(job)):
            yield _in_course(job, NoticeKind.JOB_PREEMPTED, "again")


def _failures(jobs: Sequence[Job]) -> Iterator[tuple[Job, News]]:
    """The first task of each array that fails; who asks for each has had it."""
    for job in jobs:
        if job.state == JobState.FAILED and not job.end_facts.get("because"):
            is_had = _asks_for_tasks(job)
            yield (
                job,
                News(
                    person_id=job.owner_id,
                    kind=NoticeKind.JOB_FAILED,
                    subject=f"set:{job.job_set_id}",
                    title=f"A task of array {job.job_set_id} has failed: {job.name}",
                    text=_why(job),
                    path=f"/jobs/{job.pk}/",
                    key=f"set:{job.job_set_id}:failed",
                    asked=False if is_had else is_wished(job.notify, Wish.FAIL),
                ),
            )


def _whole(jobs: Sequence[Job]) -> Iterator[tuple[Job, News]]:
    """The end of each array that is over, with a task that its owner has not cancelled, if there is
    one among these."""
    over = [job for job in jobs if job.state in FINAL_JOB_STATES]
    over.sort(key=_is_cancelled_by_its_owner, reverse=True)
    ended = {job.job_set_id: job for job in over}
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
        is_superseded = job.end_reason == EndReason.SUPERSEDED
        is_well = row["well"] == row["all"]
        is_own = is_superseded or _is_cancelled_by_its_owner(job)
        asked = _is_asked_superseded(job) if is_superseded else is_wished(job.notify, Wish.END)
        kind = NoticeKind.JOB_SUCCEEDED if is_well else NoticeKind.JOB_FAILED
        verb = "was cancelled" if is_own else "has ended"
        verb = _superseded_words(job) if is_superseded else verb
        well = f"{row['well']} of {row['all']} tasks succeeded"
        yield (
            job,
            News(
                person_id=job.owner_id,
                kind=NoticeKind.JOB_CANCELLED if is_own else kind,
                subject=f"set:{job.job_set_id}",
                title=f"Array {job.job_set_id} {verb}: {well}",
                text=_why(job) if is_own else "",
                path=f"/sets/{job.job_set_id}/",
                key=f"set:{job.job_set_id}:over",
                asked=False if _asks_for_tasks(job) else asked,
            ),
        )
