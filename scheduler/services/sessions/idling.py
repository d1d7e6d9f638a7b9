"""The idle clock of sessions: what sets it back, a word before it has run down, and the stop.

Something is done in a session when something goes to or comes from its people, when they say that
they still need it, and while its GPUs work. A session that trains over night goes on. None is
stopped without the word in good time, also where nobody looked for long.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Max, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler.models import Attempt, DeviceSample, Job, Notification, Session
from scheduler.models.telemetry import MAY_WORK
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.inbox.telling import News, tell
from scheduler.services.inbox.watching import with_watchers
from scheduler.services.sessions.entering import may_connect
from scheduler.services.stopping import request_stop
from scheduler.spec.units import format_duration
from scheduler.states import AttemptState, EndReason, NoticeKind, moment_words

# Of the rest, as the card of a session says that it ends soon.
_TOLD_AFTER = 0.8
# What programs are told is kept for an hour: a longer notice would be given for ever.
_LONGEST_NOTICE = timedelta(minutes=30)


def note_activity(*, job_id: int, at: datetime) -> None:
    """Somebody did something in the session."""
    rows = Session.objects.filter(Q(active_at=None) | Q(active_at__lt=at), pk=job_id)
    rows.update(active_at=at)


@transaction.atomic
def keep_session(*, actor: User, session: Session, now: datetime | None = None) -> None:
    """Set the idle clock back by hand. Raises Forbidden, Conflict once it does not run."""
    now = now or timezone.now()
    if not may_connect(actor, session.job):
        raise Forbidden("Only its owner may keep a session.")
    # Who stops it for its rest holds this row: either sees what the other did.
    Session.objects.select_for_update().get(pk=session.pk)
    if not Attempt.objects.filter(job=session.pk, state=AttemptState.RUNNING).exists():
        raise Conflict("The session does not run now.", code="not_running")
    note_activity(job_id=session.pk, at=now)
    record(actor, "session.keep", session.job, now=now)
    transitions.tell_of_job(Job.objects.select_related("pool").get(pk=session.pk))


def stop_idle_sessions(*, now: datetime) -> int:
    """Stop running sessions in which nothing was done for as long as they may rest, and tell the
    owners of those that soon will be; returns how many were stopped. One query where there is none
    to look at."""
    running = (
        Attempt.objects.filter(
            state=AttemptState.RUNNING, started_at__isnull=False, job__session__isnull=False
        )
        .annotate(
            idle_stop_s=F("job__session__idle_stop_s"),
            seen_at=Coalesce("job__session__active_at", "started_at"),
        )
        .select_related("job")
        .order_by("pk")
    )
    count, warned = 0, []
    for attempt in running:
        rest = timedelta(seconds=attempt.idle_stop_s)
        last_done = _last_done(attempt.seen_at, attempt.started_at)
        if last_done > now - rest * _TOLD_AFTER:
            continue
        worked_at = last_work(attempt.pk, since=max(last_done, now - rest))
        if worked_at is not None:
            note_activity(job_id=attempt.job_id, at=worked_at)
            last_done = worked_at
        if last_done > now - rest * _TOLD_AFTER:
            continue
        notice = min(rest * (1 - _TOLD_AFTER), _LONGEST_NOTICE)
        warning = _warning(attempt, last_done, max(last_done + rest, now + notice))
        if last_done <= now - rest and _was_told(warning, now - notice):
            count += _stop(attempt.pk, rest, now)
        else:
            warned.append((attempt.job, warning))
    _tell_once(warned, now)
    return count


def _warning(attempt: Attempt, last_done: datetime, stop_at: datetime) -> News:
    """Another one only after something was done in it."""
    job = attempt.job
    text = (
        f"Nothing was done in the session since {moment_words(last_done)}; it stops at "
        f"{stop_at:%H:%M} UTC."
    )
    return News(
        person_id=job.owner_id,
        kind=NoticeKind.SESSION_IDLE,
        subject=f"job:{job.pk}",
        title=f"{job.name} is idle and stops soon",
        text=f"{text} Go on in it, or keep it, if you still need it.",
        for_others=text,
        path=f"/sessions/{job.pk}/",
        key=f"session-idle:{attempt.pk}:{int(last_done.timestamp())}",
    )


def _was_told(one: News, by: datetime) -> bool:
    rows = Notification.objects.filter(person=one.person_id, key=one.key, at__lte=by)
    return rows.exists()


@transaction.atomic
def _tell_once(warned: list[tuple[Job, News]], now: datetime) -> None:
    """Asked before, for each look finds them anew and their pages would be told each time."""
    news = [one for _, one in warned]
    known = set(
        Notification.objects.filter(
            person__in={one.person_id for one in news}, key__in=[one.key for one in news]
        ).values_list("key", flat=True)
        if news
        else ()
    )
    tell(with_watchers((job, one) for job, one in warned if one.key not in known), now=now)


def _last_done(seen_at: datetime | None, started_at: datetime | None) -> datetime:
    """What was done in an earlier attempt sets no clock of this one."""
    return max(moment for moment in (seen_at, started_at) if moment is not None)


def last_work(attempt_id: int, *, since: datetime) -> datetime | None:
    """When a GPU of the attempt last worked, as far as it was seen; one that does not tell may."""
    busy = DeviceSample.objects.filter(MAY_WORK, attempt=attempt_id, at__gt=since)
    found: datetime | None = busy.aggregate(at=Max("at"))["at"]
    return found


def _stop(attempt_id: int, rest: timedelta, now: datetime) -> bool:
    with transaction.atomic():
        attempt = locked_live_attempt(attempt_id)
        if attempt is None:
            return False
        session = Session.objects.select_for_update().get(pk=attempt.job_id)
        # Somebody may have done something since it was read.
        if _last_done(session.active_at, attempt.started_at) > now - rest:
            return False
        return request_stop(
            attempt=attempt,
            reason=EndReason.SESSION_IDLE,
            now=now,
            said={"limit": format_duration(session.idle_stop_s)},
        )
