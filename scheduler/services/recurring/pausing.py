"""Schedules that pause themselves, and why; their owners are told."""

from __future__ import annotations

import logging
from datetime import datetime

from django.db import transaction

from accounts.models import AuditEvent
from accounts.services.audit import record
from scheduler.models import JobSchedule
from scheduler.services.recurring.keeping import owner_left, set_paused, subject_of
from scheduler.services.recurring.standing import failed_in_a_row
from scheduler.services.recurring.telling import tell_leads_of, tell_owner_of

logger = logging.getLogger(__name__)

# So many looks, a minute apart, may fail in a way that nobody foresaw.
MOST_TRIES = 5
_TROUBLE = "schedule.trouble"


def must_pause(schedule: JobSchedule) -> str | None:
    """Why it goes on no more; None where it does."""
    owner = schedule.owner
    if not owner.is_active:
        return f"{owner.get_full_name()}, its owner, may not sign in any more"
    if schedule.project.is_archived:
        return f"project {schedule.project.path} is archived"
    if owner_left(schedule):
        who = owner.get_full_name()
        return f"{who}, its owner, may not submit in {schedule.project.path} any more"
    if schedule.unread:
        return schedule.unread
    failed = failed_in_a_row(schedule)
    if schedule.pause_after and failed >= schedule.pause_after:
        return f"{failed} {'times' if failed > 1 else 'time'} in a row it failed or was refused"
    return None


def pause_itself(schedule: JobSchedule, why: str, now: datetime) -> None:
    """Pause a locked one, and tell its owner; its leads, where the owner is not there to hear."""
    set_paused(schedule, now, f"Paused by itself: {why}.")
    record(
        None, "schedule.pause", subject_of(schedule), after={"paused": True}, reason=why, now=now
    )
    text = f"Paused: {why}. It submits nothing until its owner resumes it."
    tell_owner_of(schedule, "is paused", text, f"paused:{schedule.version}", now=now)
    if owner_left(schedule):
        text = f"Paused: {why}. Take it over on its page, or delete it."
        tell_leads_of(schedule, "is paused", text, f"paused:{schedule.version}", now=now)


def bear(pk: int, error: Exception, *, now: datetime) -> None:
    """Write down that a look failed in a way that nobody foresaw; after `MOST_TRIES` for the same
    due time the schedule pauses itself. Raises nothing: other schedules are due as well."""
    try:
        _count(pk, type(error).__name__, now)
    except Exception:
        logger.exception("schedule %s: its failure could not be written down", pk)


@transaction.atomic
def _count(pk: int, kind: str, now: datetime) -> None:
    # What an error says may hold what the job holds: its name alone is told.
    rows = JobSchedule.objects.select_for_update(of=("self",))
    schedule = rows.select_related("project__team", "owner").filter(pk=pk).first()
    if schedule is None or schedule.next_due_at is None or schedule.next_due_at > now:
        return
    subject = subject_of(schedule)
    record(None, _TROUBLE, subject, after={"error": kind}, now=now)
    since = max(schedule.next_due_at, schedule.counted_from)
    told = AuditEvent.objects.filter(subject_kind=subject.kind, subject_id=subject.id)
    tries = told.filter(action=_TROUBLE, at__gte=since).count()
    if tries >= MOST_TRIES:
        why = (
            f"{tries} times in a row it could not be carried out, for a reason that is Trainyard's "
            f"own ({kind}); tell an operator, the log of the workers says more"
        )
        pause_itself(schedule, why, now)
