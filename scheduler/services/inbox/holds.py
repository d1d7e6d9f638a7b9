"""What the owners of jobs are told when somebody else holds, pauses or releases one.

Of the tasks of an array that is told once, for all that one person holds with the same word.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from accounts.models import User
from scheduler.models import Job
from scheduler.services.inbox.telling import News, tell
from scheduler.states import NoticeKind, shown_state, wait_sentence


def tell_of_holds(jobs: Sequence[Job], *, now: datetime) -> None:
    """Tell the owners of those that another person has just held or paused; one insert, none where
    nobody has."""
    tell([_news(job) for job in jobs if _is_by_another(job)], now=now)


def tell_of_release(job: Job, actor: User, said: str, *, now: datetime) -> None:
    """Tell the owner that another person let their job go, and why."""
    by = {"who": actor.get_full_name(), "because": said}
    tell([_told(job, "released", f"Released by {by['who']}: {said}", by)], now=now)


def _is_by_another(job: Job) -> bool:
    facts = job.wait_facts
    return bool(facts.get("because")) and facts.get("who_id") not in (None, job.owner_id)


def _news(job: Job) -> News:
    verb = shown_state(job.state, job.end_shown)
    return _told(job, verb, wait_sentence(job.wait_reason, job.wait_facts), job.wait_facts)


def _told(job: Job, verb: str, text: str, by: Mapping[str, object]) -> News:
    is_task = job.job_set_id is not None
    about = f"set:{job.job_set_id}" if is_task else f"job:{job.pk}"
    return News(
        person_id=job.owner_id,
        kind=NoticeKind.JOB_HELD,
        subject=about,
        title=f"{job.name} was {verb}" if not is_task else f"{job.name}: tasks were {verb}",
        text=text,
        path=f"/sets/{job.job_set_id}/" if is_task else f"/jobs/{job.pk}/",
        key=f"{about}:{verb}:{word_key(by) if is_task else job.version}",
    )


def word_key(by: Mapping[str, object]) -> str:
    """Tells one person's word from another's."""
    word = f"{by.get('who')}:{by.get('because')}"
    return f"{zlib.crc32(word.encode()):08x}"
