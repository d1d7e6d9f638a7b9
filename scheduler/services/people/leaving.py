"""Somebody is let in no longer: their access ends, and their jobs go on or are cancelled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.errors import DomainError
from accounts.models import User
from accounts.services.audit import record
from accounts.services.ending.access import Ended, deactivate_person
from scheduler.models import BulkCancel, Job, SessionPass
from scheduler.services.holding.alone import SecondNeeded, refuse_alone
from scheduler.services.holding.following import followers_of, locked_waiting
from scheduler.services.holding.moves import cancel_waiting, reconsider
from scheduler.services.holding.reasons import by_whom, written_about
from scheduler.services.jobs import end_job
from scheduler.services.recurring.taking import lock_all_of, pause_all_of
from scheduler.services.seconding.proposing import propose_to_cancel_of
from scheduler.states import OPEN_JOB_STATES, EndReason


@dataclass(frozen=True, slots=True)
class Left:
    """What ended with it. `refused`: jobs that could not be cancelled just now. `proposal`: there
    are too many for one person, so a second one is asked, and all go on until then. `schedules`:
    those that were paused, for leads to take over."""

    ended: Ended
    cancelled: int
    refused: int
    proposal: BulkCancel | None = None
    schedules: int = 0


def end_access(
    *, actor: User, user: User, reason: str, cancel_jobs: bool, now: datetime | None = None
) -> Left:
    """As `deactivate_person`, and the ways into their sessions end, and their schedules are paused;
    with `cancel_jobs` what they have waiting is cancelled together, and what runs is asked to stop,
    job by job; who may read these jobs reads the reason then, which is one of a job (or Invalid).
    More than one person may end alone are proposed to a second one with the same reason; raises
    Conflict, and the access has not ended, where there is none."""
    now = now or timezone.now()
    theirs = Job.objects.filter(owner=user, state__in=OPEN_JOB_STATES)
    said = written_about(reason, theirs) if cancel_jobs else reason
    with transaction.atomic():
        lock_all_of(user)
        ended = deactivate_person(actor=actor, user=user, reason=said, now=now)
        SessionPass.objects.filter(user=user).delete()
        paused = pause_all_of(user, now=now)
        if cancel_jobs:
            try:
                refuse_alone(actor, theirs.count(), now=now)
            except SecondNeeded:
                asked = propose_to_cancel_of(actor=actor, person=user, reason=said, now=now)
                return Left(ended, 0, 0, asked, paused)
    if not cancel_jobs:
        return Left(ended, 0, 0, None, paused)
    cancelled = _cancel_waiting(actor, user, said, now)
    refused = 0
    for job in theirs:
        try:
            end_job(actor=actor, job=job, reason=said, now=now)
            cancelled += 1
        except DomainError:
            refused += 1
    return Left(ended, cancelled, refused, None, paused)


@transaction.atomic
def _cancel_waiting(actor: User, user: User, said: str, now: datetime) -> int:
    """What has not started goes first and at once, so that none of it starts meanwhile."""
    waiting = locked_waiting(Job.objects.filter(owner=user))
    end, facts = EndReason.CANCELLED_BY_ADMIN, by_whom(actor, said)
    cancel_waiting(waiting, reason=end, facts=facts, now=now, actor=actor)
    after = {"waiting_jobs": len(waiting)}
    record(actor, "person.cancel_jobs", user, after=after, reason=said, now=now)
    reconsider(followers_of(waiting), now=now)
    return len(waiting)
