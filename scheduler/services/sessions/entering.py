"""Coming into a session: a ticket for one use within a minute, then a key for this browser.

A ticket is bound to a person and a session and may stand in an address; the key never does. What
comes with a key is looked at anew for every request, and every few seconds while one lasts.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.held import forget_grants
from accounts.models import User
from accounts.permissions import can
from accounts.secrets import hash_secret
from accounts.services.audit import record
from scheduler.models import Attempt, Job, Session, SessionPass
from scheduler.services.errors import Conflict, Forbidden
from scheduler.states import AttemptState

TICKET_LIFE = timedelta(seconds=60)
KEY_LIFE = timedelta(hours=12)
_MAX_SECRET = 128


@dataclass(frozen=True, slots=True)
class Entry:
    """Who has come into which session, and where its program runs, while it does."""

    pass_id: int
    user_id: int
    job_id: int
    app: str
    fence: int
    node_id: int


def may_connect(user: User, job: Job) -> bool:
    """Whether `user` may use the session: its owner alone, who acts in it as the job does."""
    return job.owner_id == user.pk and user.is_active and can(user, "submit_job", job.project)


@transaction.atomic
def issue_ticket(*, actor: User, session: Session, now: datetime | None = None) -> str:
    """A ticket for `actor`, told once. Raises Forbidden, Conflict when it does not run."""
    now = now or timezone.now()
    job = session.job
    if not may_connect(actor, job):
        raise Forbidden("Only its owner may use a session; start one of your own.")
    if running_attempt(job.pk) is None:
        raise Conflict("The session does not run now.", code="not_running")
    secret = secrets.token_urlsafe(32)
    SessionPass.objects.create(
        session=session, user=actor, ticket_hash=hash_secret(secret), issued_at=now
    )
    record(actor, "session.ticket", job, now=now)
    return secret


@transaction.atomic
def redeem_ticket(
    *, ticket: str, job_id: int, by: int | None = None, now: datetime | None = None
) -> str | None:
    """Take a ticket; returns the key, None for a ticket that is not good for this session, or was
    not given to `by`."""
    now = now or timezone.now()
    found = _passes().filter(ticket_hash=_hash(ticket), session_id=job_id, used_at=None).first()
    if found is None or now - found.issued_at > TICKET_LIFE:
        return None
    if by not in (None, found.user_id) or not may_connect(found.user, found.session.job):
        return None
    key = secrets.token_urlsafe(32)
    # Two who come with the same ticket at once: one of them gets in.
    taken = SessionPass.objects.filter(pk=found.pk, used_at=None).update(
        used_at=now, key_hash=hash_secret(key), key_until=now + KEY_LIFE
    )
    if not taken:
        return None
    Session.objects.filter(pk=job_id).update(active_at=now)
    record(found.user, "session.connect", found.session.job, now=now)
    return key


def entry_of(*, key: str, job_id: int, now: datetime | None = None) -> Entry | None:
    """What a key opens now; None when it opens nothing, whatever the reason."""
    now = now or timezone.now()
    if not key or len(key) > _MAX_SECRET:
        return None
    found = _passes().filter(key_hash=_hash(key), session_id=job_id, key_until__gt=now).first()
    if found is None:
        return None
    forget_grants(found.user)  # rights may have changed since they were last read
    if not may_connect(found.user, found.session.job):
        return None
    place = running_attempt(job_id)
    if place is None:
        return None
    fence, node_id = place
    return Entry(found.pk, found.user_id, job_id, found.session.app, fence, node_id)


def running_attempt(job_id: int) -> tuple[int, int] | None:
    """The fence and the node of the attempt that runs now."""
    rows = Attempt.objects.filter(job=job_id, state=AttemptState.RUNNING)
    return rows.values_list("pk", "placements__node_id").first()


def prune_passes(*, now: datetime) -> int:
    """Forget passes that open nothing any more."""
    deleted, _ = SessionPass.objects.filter(issued_at__lt=now - KEY_LIFE - TICKET_LIFE).delete()
    return deleted


def _passes() -> QuerySet[SessionPass]:
    return SessionPass.objects.select_related("user", "session__job__project__team")


def _hash(secret: str) -> str:
    return hash_secret(secret[:_MAX_SECRET])
