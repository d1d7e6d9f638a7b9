"""The same for many jobs: each by itself, so that one that refuses keeps nobody else from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.utils import timezone

from accounts.errors import DomainError
from accounts.models import User
from scheduler.models import Job
from scheduler.selectors.jobs import clone_document
from scheduler.selectors.requesting.parties import may_end, parties_of
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.composing.templates import submit_again
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.holding.alone import refuse_alone
from scheduler.services.holding.reasons import ReasonNeeded, is_held_by_owner, written_about
from scheduler.services.jobs import end_job
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import FINAL_JOB_STATES

MOST_JOBS = 200


class Act(StrEnum):
    """What can be done to many jobs."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    RERUN = "rerun"


@dataclass(frozen=True, slots=True)
class Done:
    """The jobs it was done to, or those that came of it; and of the others why not."""

    jobs: tuple[Job, ...]
    refused: tuple[tuple[Job, str], ...]


def act_on_jobs(
    *, actor: User, jobs: Sequence[Job], act: Act, key: str = "", reason: str = ""
) -> Done:
    """Cancel, hold, release, or run again; raises Invalid for more than MOST_JOBS, SecondNeeded for
    a cancel of too many jobs of others, and ReasonNeeded as soon as one of them would need it.

    With a `key` a repeated call runs nothing again a second time.
    """
    if len(jobs) > MOST_JOBS:
        raise Invalid(f"Mark at most {MOST_JOBS} jobs at once.", field="job")
    if act is Act.CANCEL:
        refuse_alone(actor, len(_open_of_others(actor, jobs)), now=timezone.now())
    said = written_about(reason, Job.objects.filter(pk__in=[job.pk for job in jobs]))
    if not said and reason_wanted(actor, jobs, act):
        raise ReasonNeeded("Some of these jobs are somebody else's")
    done: list[Job] = []
    refused: list[tuple[Job, str]] = []
    for job in jobs:
        try:
            if act is Act.RERUN:
                done.append(_rerun(actor, job, key and f"{key}:{job.pk}"))
            else:
                done.append(_ACTS[act](actor=actor, job=job, reason=said))
        except DomainError as error:
            refused.append((job, error.detail))
        except SpecInvalid as error:
            # A submit is refused for what has changed since: its project, its pool, a limit.
            refused.append((job, str(error)))
    return Done(tuple(done), tuple(refused))


def reason_wanted(actor: User, jobs: Sequence[Job], act: Act) -> bool:
    """Whether what is done needs a reason, because some of the jobs are another's."""
    if act is Act.RERUN:
        return False
    found = _open_of_others(actor, jobs)
    return any(map(is_held_by_owner, found)) if act is Act.RELEASE else bool(found)


def _cancel(*, actor: User, job: Job, reason: str) -> Job:
    if job.state in FINAL_JOB_STATES:
        raise Conflict("It has ended.")
    return end_job(actor=actor, job=job, reason=reason)


def _open_of_others(actor: User, jobs: Sequence[Job]) -> list[Job]:
    """Those that belong to others, have not ended, and that the actor might end."""
    return [
        job
        for job in jobs
        if job.owner_id != actor.pk
        and job.state not in FINAL_JOB_STATES
        and may_end(actor, parties_of([job]))
    ]


def _rerun(actor: User, job: Job, key: str) -> Job:
    """The same again, as a new job, of its template too."""
    if job.state not in FINAL_JOB_STATES:
        raise Conflict("It has not ended.")
    spec = parse_spec(clone_document(actor, job))
    return submit_again(actor=actor, job=job, spec=spec, idempotency_key=key).job


_ACTS: Mapping[Act, Callable[..., Job]] = {
    Act.CANCEL: _cancel,
    Act.HOLD: hold_job,
    Act.RELEASE: release_job,
}
