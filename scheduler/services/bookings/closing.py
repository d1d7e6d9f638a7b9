"""Bookings that end before their time, and what becomes of the jobs inside when one is over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from accounts.models import User
from accounts.permissions import managed_for
from accounts.services.audit import record
from accounts.statements import AskedOnce
from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import Attempt, Booking, Job
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.bookings.fitting import open_bookings
from scheduler.services.bookings.inside import count_ended, say_why
from scheduler.services.bookings.planning import locked, owner_of, refuse_if_over, require_booker
from scheduler.services.holding.following import followers_of, locked_waiting
from scheduler.services.holding.moves import cancel_waiting, reconsider
from scheduler.services.stopping import request_stop
from scheduler.services.timeline.segments import follow_node
from scheduler.states import (
    LIVE_ATTEMPT_STATES,
    WAITING_JOB_STATES,
    AttemptState,
    BookingState,
    EndReason,
    JobState,
)


@transaction.atomic
def cancel_booking(
    *,
    actor: User,
    booking: Booking,
    version: int | None = None,
    reason: str = "",
    now: datetime | None = None,
) -> Booking:
    """Give it back: before its begin, or what is left of it; jobs inside stop as at its end.

    Cancelling twice is a no-op. Raises Forbidden, StaleVersion, Conflict for one that is over, and
    ReasonNeeded without a reason where jobs of others are inside.
    """
    require_booker(actor, owner_of(booking))
    now = now or timezone.now()
    booking = locked(booking, version)
    if booking.closed_as == BookingState.CANCELLED:
        return booking
    give_back(booking, actor=actor, reason=reason, now=now)
    return booking


def give_back(booking: Booking, *, actor: User, reason: str = "", now: datetime) -> None:
    """The same of a locked row, once the caller has looked at rights. Raises SecondNeeded
    where more jobs of others would end with it than one person ends alone within an hour,
    ReasonNeeded."""
    refuse_if_over(booking, now)
    others = count_ended(actor, booking, by=now, now=now)
    said = say_why(actor, booking, others, reason)
    _close(booking, BookingState.CANCELLED, actor=actor, now=now, others=others, said=said)


def release_unused(*, now: datetime) -> int:
    """Give back active bookings in which nothing has started for too long; returns how many.

    One that a job waits in, ready to start, is not idle by its owners' fault, and stays.
    """
    since = now - timedelta(seconds=load_conf().booking_release_s)
    count = 0
    for booking in _IDLE.read(now, since):
        with transaction.atomic():
            fresh = locked(booking, None)
            # Somebody may have come into it, or closed it, since it was read.
            if _idle_since(now, since).filter(pk=fresh.pk).exists():
                _close(fresh, BookingState.RELEASED, actor=None, now=now)
                count += 1
    return count


def _idle_since(now: datetime, since: datetime) -> QuerySet[Booking]:
    used = Attempt.objects.filter(job__booked_in=OuterRef("pk"))
    awaited = Job.objects.filter(booked_in=OuterRef("pk"), state=JobState.QUEUED)
    return Booking.objects.filter(
        open_bookings(now), ~Exists(used), ~Exists(awaited), from_at__lte=since
    )


def _running_in_ended(by: datetime) -> QuerySet[Attempt, tuple[Any, ...]]:
    running = Attempt.objects.filter(
        Q(job__booked_in__until_at__lte=by) | ~Q(job__booked_in__closed_as=""),
        job__booked_in__isnull=False,
        state__in=LIVE_ATTEMPT_STATES,
    )
    return running.exclude(state=AttemptState.STOPPING).order_by("pk").values_list("pk")


def _waiting_in_ended(by: datetime) -> QuerySet[Job, tuple[Any, ...]]:
    return _late_by(by).order_by("pk").values_list("pk")


def _late_by(by: datetime) -> QuerySet[Job]:
    is_over = Q(booked_in__until_at__lte=by) | ~Q(booked_in__closed_as="")
    return Job.objects.filter(is_over, booked_in__isnull=False, state__in=WAITING_JOB_STATES)


_IDLE, _RUNNING = AskedOnce(_idle_since), AskedOnce(_running_in_ended)
_WAITING = AskedOnce(_waiting_in_ended)
_CUT = "job__booked_in__cut_short"


def end_booked_jobs(*, now: datetime) -> int:
    """Stop what runs in a booking that ends now, and cancel what waits for one that is over.

    Programs are asked to stop as much earlier as others have to be gone before one begins, so that
    the next one finds its nodes empty. Returns how many jobs.
    """
    by = now + timedelta(seconds=load_conf().policy.backfill_slack_s)
    count = 0
    for (pk,) in _RUNNING.read(by):
        with transaction.atomic():
            attempt = locked_live_attempt(pk)
            # Its booking may have been made longer since it was read.
            over = _running_in_ended(by).filter(pk=pk).values_list("job__booked_in", _CUT).first()
            if attempt is not None and over is not None:
                end, said = EndReason.BOOKING_ENDED, _said_of(*over)
                count += request_stop(attempt=attempt, reason=end, now=now, said=said)
    return count + _cancel_late(now)


def _cancel_late(now: datetime) -> int:
    numbers = [pk for (pk,) in _WAITING.read(now)]
    if not numbers:
        return 0
    with transaction.atomic():
        jobs = locked_waiting(_late_by(now).filter(pk__in=numbers))
        by_booking: dict[int, list[Job]] = {}
        for job in jobs:
            by_booking.setdefault(job.booked_in_id or 0, []).append(job)
        rows = Booking.objects.filter(pk__in=by_booking).values_list("pk", "cut_short")
        facts = {pk: _said_of(pk, cut) for pk, cut in rows}
        for booking, members in by_booking.items():
            end = EndReason.BOOKING_ENDED
            cancel_waiting(members, reason=end, facts=facts[booking], now=now)
        reconsider(followers_of(jobs), now=now)
    return len(jobs)


def _said_of(booking: int, cut_short: Mapping[str, Any]) -> dict[str, Any]:
    """What the ends of jobs inside say: which booking, and who cut it short and why."""
    return {"booking": booking, **cut_short}


def _close(
    booking: Booking,
    how: BookingState,
    *,
    actor: User | None,
    now: datetime,
    others: Mapping[str, int] | None = None,
    said: str = "",
) -> None:
    booking.closed_as, booking.closed_at = how, now
    booking.version += 1
    booking.save(update_fields=["closed_as", "closed_at", "cut_short", "version"])
    verb = "cancel" if how is BookingState.CANCELLED else "release"
    for node in booking.node_ids:
        follow_node(node, now=now, cause="booking")
    after = {"closed_as": how, **(others or {})}
    giver = managed_for(actor, owner_of(booking)) if actor else None
    what = f"booking.{verb}"
    record(actor, what, booking, after=after, on_behalf_of=giver, reason=said, now=now)
    events.wake_scheduler_on_commit()
