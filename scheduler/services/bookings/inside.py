"""Jobs of others inside a booking that somebody ends: they count like all that one person ends."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from accounts.models import User
from scheduler.models import Attempt, Booking, Job
from scheduler.services.holding.alone import refuse_alone
from scheduler.services.holding.reasons import ReasonNeeded, by_whom, written_about
from scheduler.states import LIVE_ATTEMPT_STATES, OPEN_JOB_STATES

# What the record of an end or of an earlier end says of them.
JOBS_OF_OTHERS = "jobs_of_others"
_INSTEAD = "Let two people cancel them first, or let the booking end as it was planned."


def say_why(actor: User, booking: Booking, others: Mapping[str, int], reason: str) -> str:
    """The reason as it is kept, on the booking (not saved) for the jobs that end with it. Raises
    ReasonNeeded for none where there are some of others, Invalid as `written`."""
    inside = Job.objects.filter(booked_in=booking, state__in=OPEN_JOB_STATES)
    said = written_about(reason, inside)
    if others and not said:
        raise ReasonNeeded(f"Jobs of others are in booking {booking.pk}")
    booking.cut_short = by_whom(actor, said) if said else {}
    return said


def count_ended(actor: User, booking: Booking, *, by: datetime, now: datetime) -> dict[str, int]:
    """Of a booking that is over at `by`, how many jobs of others may end with it, for the record;
    empty where there are none.

    All that wait, and what runs and is not certain to be over by then. Raises SecondNeeded where
    one person may not end so many alone.
    """
    inside = Job.objects.filter(booked_in=booking).exclude(owner=actor)
    left = set(inside.filter(state__in=OPEN_JOB_STATES).values_list("pk", flat=True))
    if not left:
        return {}
    running = Attempt.objects.filter(job__booked_in=booking, state__in=LIVE_ATTEMPT_STATES)
    for job, started_at, limit_s in running.values_list(
        "job_id", "started_at", "job__time_limit_s"
    ):
        if started_at and started_at + timedelta(seconds=limit_s) <= by:
            left.discard(job)
    refuse_alone(actor, len(left), now=now, instead=_INSTEAD)
    return {JOBS_OF_OTHERS: len(left)} if left else {}
