"""A proposal to cancel many jobs, for tests that look at it and not at how many there are."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from accounts.models import User
from scheduler.models import BulkCancel, JobSet
from scheduler.services.seconding.proposing import propose_to_cancel_set
from scheduler.states.seconding import PROPOSED_FOR
from tests.factories import person
from tests.scenes import NOON

WHY = "writes to the wrong bucket"


def waiting_cancel(job_set: JobSet, **fields: Any) -> BulkCancel:
    """It names all tasks of the array, however few, and waits; nobody else has anything to do with
    who made it."""
    now, jobs = timezone.now(), list(job_set.tasks.all())
    found = BulkCancel.objects.create(
        about=f"set:{job_set.pk}",
        job_set=job_set,
        team=job_set.project.team,
        named=len(jobs),
        reason=WHY,
        proposed_by=person(f"hasty-{job_set.pk}"),
        proposed_at=now,
        lapses_at=now + PROPOSED_FOR,
        **fields,
    )
    found.jobs.set(jobs)
    return found


def left(job_set: JobSet) -> int:
    """How many of its tasks are not cancelled."""
    return job_set.tasks.exclude(state="cancelled").count()


def proposed(actor: User, job_set: JobSet, **more: Any) -> BulkCancel:
    """What the first person asks for at noon."""
    more = {"reason": WHY, "now": NOON, **more}
    return propose_to_cancel_set(actor=actor, job_set=job_set, **more)
