"""Another tier for a job that waits."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler import events
from scheduler.models import Job
from scheduler.services.changing.rules import refuse_by_template
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.history import record_event, tell_of_job
from scheduler.services.jobs import check_actor, locked_job
from scheduler.services.rows.updating import update_row
from scheduler.services.submitting.ceilings import refuse_above_ceiling
from scheduler.spec import SpecInvalid
from scheduler.states import WAITING_JOB_STATES, Tier


@transaction.atomic
def set_tier(
    *, actor: User, job: Job, tier: Tier, version: int | None = None, now: datetime | None = None
) -> Job:
    """Let a waiting job wait at another tier, in its old place among those of that tier.

    What its team may submit at is the most, and its template holds its owner, as at submit.
    Raises Forbidden, Conflict, Invalid or StaleVersion.
    """
    now = now or timezone.now()
    job = locked_job(job)
    check_actor(actor, job, version)
    if job.tier == tier:
        return job
    if job.state not in WAITING_JOB_STATES:
        raise Conflict(f"Only a waiting job can change its tier; this one is {job.state}.")
    refuse_by_template(actor, job, "tier", tier.name.lower())
    if tier > job.tier:
        try:
            refuse_above_ceiling(job.project, tier)
        except SpecInvalid as refused:
            raise Invalid(str(refused), field="tier") from None
    was = Tier(job.tier)
    if not update_row(
        Job, job.pk, {"tier": int(tier)}, guard={"state": job.state}, raised=("version",)
    ):
        raise Conflict("The job has just moved; try again.", code="try_again")
    job.refresh_from_db(fields=["tier", "version"])
    facts = {"was": was.name.lower(), "is": tier.name.lower()}
    record_event(job, "tier_changed", now=now, actor=actor, detail=facts)
    tell_of_job(job)
    events.wake_scheduler_on_commit()
    return job
