"""What the owners of jobs are told when somebody else holds, pauses or releases one, and who
watches it when anybody but themselves does.

Of the tasks of an array that is told once, for all that one person holds with the same word.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from accounts.models import User
from scheduler.models import Job
from scheduler.services.inbox.telling import News, tell
from scheduler.services.inbox.watching import for_watchers
from scheduler.states import NoticeKind, shown_state, wait_sentence


def tell_of_holds(jobs: Sequence[Job], *, now: datetime) -> None:
    """Tell the owners of those that another person has just held or paused, and who watches them of
    what anybody did; one insert, none where there is nobody to tell."""
    by_people = [(job, _news(job, now)) for job in jobs if _who_holds(job) is not None]
    own = [one for job, one in by_people if _is_by_another(job)]
    tell([*own, *for_watchers(by_people, by=_who_holds)], now=now)


def tell_of_release(job: Job, actor: User, said: str, *, now: datetime) -> None:
    """Tell the owner that another person let their job go, and why; and who watches it that it was
    let go."""
    by: dict[str, object] = {"who": actor.get_full_name(), "who_id": actor.pk, "because": said}
    text = f"Released by {by['who']}: {said}" if said else f"Released by {by['who']}."
    pairs = [(job, _told(job, "released", text, by, now))]
    own = [one for _, one in pairs if said and job.owner_id != actor.pk]
    tell([*own, *for_watchers(pairs, by=lambda _: actor.pk)], now=now)


def _who_holds(job: Job) -> object:
    return job.wait_facts.get("who_id")


def _is_by_another(job: Job) -> bool:
    return bool(job.wait_facts.get("because")) and _who_holds(job) != job.owner_id


def _news(job: Job, now: datetime) -> News:
    verb = shown_state(job.state, job.end_shown)
    return _told(job, verb, wait_sentence(job.wait_reason, job.wait_facts), job.wait_facts, now)


def _told(job: Job, verb: str, text: str, by: Mapping[str, object], now: datetime) -> News:
    is_task = job.job_set_id is not None
    about = f"set:{job.job_set_id}" if is_task else f"job:{job.pk}"
    # Who may do it without a word does it again without another.
    word = word_key(by) if by.get("because") else f"{by.get('who_id')}:{now:%Y%m%d%H}"
    return News(
        person_id=job.owner_id,
        kind=NoticeKind.JOB_HELD,
        subject=about,
        title=f"{job.name} was {verb}" if not is_task else f"{job.name}: tasks were {verb}",
        text=text,
        path=f"/sets/{job.job_set_id}/" if is_task else f"/jobs/{job.pk}/",
        key=f"{about}:{verb}:{word if is_task else job.version}",
    )


def word_key(by: Mapping[str, object]) -> str:
    """Tells one person's word from another's."""
    word = f"{by.get('who')}:{by.get('because')}"
    return f"{zlib.crc32(word.encode()):08x}"
