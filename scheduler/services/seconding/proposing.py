"""The first person's word: which jobs should end, and why. Nothing is cancelled yet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler.models import BulkCancel, Job, JobSet
from scheduler.selectors.requesting.parties import Parties, ended_for, may_end, parties_of
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.holding.alone import ended_lately
from scheduler.services.holding.reasons import ReasonNeeded, written_about
from scheduler.services.inbox.telling import News, tell
from scheduler.services.seconding.rights import require_person, who_may_second
from scheduler.states import FINAL_JOB_STATES, OPEN_JOB_STATES, NoticeKind
from scheduler.states.seconding import ALONE_AT_MOST, PROPOSED_FOR, CancelOutcome


@dataclass(frozen=True, slots=True)
class About:
    """What is to be ended as a whole; see BulkCancel."""

    key: str
    job_set: JobSet | None = None
    person: User | None = None


def propose_to_cancel_set(
    *, actor: User, job_set: JobSet, reason: str, now: datetime | None = None
) -> BulkCancel:
    """That all tasks of an array end that have not ended; raises as `propose_to_cancel_jobs`."""
    return _propose(
        actor, About(f"set:{job_set.pk}", job_set), _open(job_set.tasks.all()), reason, now
    )


def propose_to_cancel_jobs(
    *, actor: User, jobs: Sequence[Job], reason: str, now: datetime | None = None
) -> BulkCancel:
    """That these jobs end, as far as they have not and the actor might end them.

    Who proposes the same again gets the same proposal. Raises Forbidden for accounts of programs
    and where the actor may end none, ReasonNeeded without a reason, Conflict where one person is
    enough, where somebody else has proposed the same, and where nobody could agree.
    """
    left = [one for one in jobs if one.state not in FINAL_JOB_STATES]
    may = [one for one in left if may_end(actor, parties_of([one]))]
    if left and not may:
        raise Forbidden("Only a job's owner, a team lead or an operator may end it.")
    numbers = ",".join(str(pk) for pk in sorted(one.pk for one in may))
    about = About(f"jobs:{hashlib.sha256(numbers.encode()).hexdigest()}")
    return _propose(actor, about, may, reason, now)


def propose_to_cancel_of(
    *, actor: User, person: User, reason: str, now: datetime | None = None
) -> BulkCancel:
    """That all that somebody has waiting or running ends; raises as `propose_to_cancel_jobs`."""
    theirs = _open(Job.objects.filter(owner=person))
    return _propose(actor, About(f"person:{person.pk}", person=person), theirs, reason, now)


def _open(jobs: QuerySet[Job]) -> list[Job]:
    left = jobs.filter(state__in=OPEN_JOB_STATES)
    return list(left.select_related("project__team").order_by("pk"))


@transaction.atomic
def _propose(
    actor: User, about: About, jobs: Sequence[Job], reason: str, now: datetime | None
) -> BulkCancel:
    now = now or timezone.now()
    require_person(actor)
    parties = parties_of(jobs)
    if jobs and not may_end(actor, parties):
        raise Forbidden("Only the owner, a team lead or an operator may do this.")
    if not (reason := written_about(reason, Job.objects.filter(pk__in=[one.pk for one in jobs]))):
        raise ReasonNeeded("A second person is asked to agree")
    _refuse_if_one_is_enough(actor, jobs, now)
    people = who_may_second(parties, actor)
    if not people:
        words = "Nobody else may end all of these jobs, so nobody could agree. Ask an administrator"
        raise Conflict(f"{words} to make somebody an operator.", code="nobody_to_agree")
    _let_lapse(about.key, now)
    found, is_new = BulkCancel.objects.get_or_create(
        about=about.key,
        outcome=CancelOutcome.WAITING,
        defaults={
            "job_set": about.job_set,
            "person": about.person,
            "team_id": _team_of(parties),
            "named": len(jobs),
            "reason": reason,
            "proposed_by": actor,
            "proposed_at": now,
            "lapses_at": now + PROPOSED_FOR,
        },
    )
    if found.proposed_by_id != actor.pk:
        name = found.proposed_by.get_full_name()
        raise Conflict(
            f"{name} has proposed this already (proposal {found.pk}): agree to it or refuse it.",
            code="already_proposed",
            facts={"bulk_cancel": found.pk},
        )
    if is_new:
        found.jobs.set(jobs)
        said = _kept(found)
        giver, what = ended_for(actor, parties), "bulk_cancel.propose"
        record(actor, what, found, after=said, on_behalf_of=giver, reason=reason, now=now)
        _ask(found, people, now)
    return found


def _refuse_if_one_is_enough(actor: User, jobs: Sequence[Job], now: datetime) -> None:
    of_others = sum(one.owner_id != actor.pk for one in jobs)
    if of_others + ended_lately(actor, now=now) <= ALONE_AT_MOST:
        raise Conflict(
            f"These are {of_others} jobs of others. Up to {ALONE_AT_MOST} within an hour need no "
            "second person: cancel them at once.",
            code="one_is_enough",
        )


def _let_lapse(key: str, now: datetime) -> None:
    late = BulkCancel.objects.filter(about=key, outcome=CancelOutcome.WAITING, lapses_at__lte=now)
    late.update(outcome=CancelOutcome.LAPSED)


def _team_of(parties: Parties) -> int | None:
    teams = {project.team_id for _, project in parties}
    return teams.pop() if len(teams) == 1 else None


def _kept(found: BulkCancel) -> dict[str, object]:
    return {"about": found.about[:40], "jobs": found.named}


def _ask(found: BulkCancel, people: Iterable[int], now: datetime) -> None:
    who = found.proposed_by.get_full_name()
    tell(
        [
            News(
                person_id=person,
                kind=NoticeKind.REQUEST_WAITING,
                subject=f"bulk_cancel:{found.pk}",
                title=f"{who} wants to cancel {found.what}: a second person has to agree",
                text=found.reason,
                path=f"/approvals/cancels/{found.pk}/",
                key=f"bulk_cancel:{found.pk}",
            )
            for person in sorted(people)
        ],
        now=now,
    )
