"""The idle clock of sessions: what sets it back, and the stop when it has run down.

Something is done in a session when a byte goes to or comes from its people, when they say that
they still need it, and while its GPUs work. A session that trains over night goes on.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Max, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.models import User
from accounts.services.audit import record
from scheduler.models import Attempt, DeviceSample, Job, Session
from scheduler.models.telemetry import MAY_WORK
from scheduler.services import transitions
from scheduler.services.attempts import locked_live_attempt
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.sessions.entering import may_connect
from scheduler.services.stopping import request_stop
from scheduler.spec.units import format_duration
from scheduler.states import AttemptState, EndReason


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
    """Stop running sessions in which nothing was done for as long as they may rest; returns how
    many. One query where there is none to look at."""
    running = (
        Attempt.objects.filter(
            state=AttemptState.RUNNING, started_at__isnull=False, job__session__isnull=False
        )
        .annotate(
            idle_stop_s=F("job__session__idle_stop_s"),
            seen_at=Coalesce("job__session__active_at", "started_at"),
        )
        .order_by("pk")
        .values_list("pk", "job_id", "idle_stop_s", "seen_at", "started_at")
    )
    count = 0
    for pk, job_id, idle_stop_s, seen_at, started_at in running:
        rest = timedelta(seconds=idle_stop_s)
        if _last_done(seen_at, started_at) > now - rest:
            continue
        worked_at = last_work(pk, since=now - rest)
        if worked_at is not None:
            note_activity(job_id=job_id, at=worked_at)
            continue
        count += _stop(pk, rest, now)
    return count


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
