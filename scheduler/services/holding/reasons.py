"""The word that somebody gives who ends, holds, pauses or releases a job: when it is needed, and
what it may be. The one place that decides both."""

from __future__ import annotations

from django.db.models import QuerySet

from accounts.models import User
from scheduler.models import Job
from scheduler.services.errors import Invalid
from scheduler.services.secrets.unsaid import unsaid
from scheduler.states import MOST_REASON, JobState, WaitReason

# What an owner's own hold is called, whether the job had run or not.
_OWN_HOLDS = (WaitReason.HELD_BY_USER, WaitReason.PAUSED)


class ReasonNeeded(Invalid):
    """Somebody else's job, and nothing was said."""

    code = "reason_needed"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: give a reason, one line of at most {MOST_REASON} characters. The owner is "
            "told, and whoever may read the job reads it.",
            field="reason",
        )


def written(reason: str) -> str:
    """The reason as it is kept, "" for none. Raises Invalid for more than one line of MOST_REASON
    printable characters."""
    text = reason.strip()
    if len(text) > MOST_REASON or not text.isprintable():
        raise Invalid(
            f"Write one line of at most {MOST_REASON} characters, without control characters.",
            field="reason",
        )
    return text


def written_about(reason: str, jobs: QuerySet[Job]) -> str:
    """The same of these jobs, with their secrets masked as in their logs; a statement or two."""
    return unsaid(written(reason), jobs)


def word_of(said: str) -> dict[str, object]:
    """What an event says of it; nothing for none."""
    return {"because": said} if said else {}


def by_whom(actor: User, said: str) -> dict[str, object]:
    """Who did it, for the sentence that tells of it, and what they said."""
    return {"who": actor.get_full_name(), "who_id": actor.pk, **word_of(said)}


def said_of(actor: User, job: Job, reason: str) -> str:
    """The reason as it is kept; raises ReasonNeeded for none where the job is another's, Invalid as
    `written`."""
    text = written_about(reason, Job.objects.filter(pk=job.pk))
    if not text and job.owner_id != actor.pk:
        raise ReasonNeeded(f"Job {job.pk} is somebody else's")
    return text


def said_of_release(actor: User, job: Job, reason: str) -> str:
    """The same of a held job that is let go: needed where its owner holds it, not where what holds
    it is the actor's, another's, or nobody's."""
    text = written_about(reason, Job.objects.filter(pk=job.pk))
    if not text and is_held_by_owner(job) and job.owner_id != actor.pk:
        raise ReasonNeeded(f"The owner of job {job.pk} holds it")
    return text


def is_held_by_owner(job: Job) -> bool:
    """Whether its owner held or paused it, or submitted it held; so where nobody knows who did."""
    is_own = job.state == JobState.HELD and job.wait_reason in _OWN_HOLDS
    return is_own and job.wait_facts.get("who_id") in (None, job.owner_id)
