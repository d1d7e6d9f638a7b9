"""When the scheduler last decided: as of then is what pages say of why jobs wait and until when.

The lease tells it to within a few seconds: only who has decided lengthens it (`loop/lease.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet, Subquery

from accounts.errors import Forbidden
from accounts.models import User
from scheduler.models import SchedulerLease

LASTS = timedelta(seconds=SchedulerLease.LASTS_S)
# Longer than a lease and the longest cycle of a large cluster together.
LATE = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Decided:
    """`at`: None where no scheduler was ever at work. `is_late`: it has not decided for LATE."""

    at: datetime | None
    is_late: bool


def decided_along() -> Subquery:
    """The end of the lease, to come with a row that is read for the same page."""
    return Subquery(leases().values("expires_at")[:1])


def leases() -> QuerySet[SchedulerLease]:
    """The one row there is, or none."""
    return SchedulerLease.objects.order_by("-expires_at")


def decided_by(lease_until: datetime | None, *, now: datetime) -> Decided:
    """What the end of the lease says; no query."""
    if lease_until is None:
        return Decided(None, is_late=True)
    at = min(lease_until - LASTS, now)
    return Decided(at, is_late=now - at > LATE)


def last_decided(viewer: User, *, now: datetime) -> Decided:
    """One query; everybody who is signed in may know. Raises Forbidden."""
    if not viewer.is_authenticated:
        raise Forbidden("Sign in to see this.")
    return decided_by(leases().values_list("expires_at", flat=True).first(), now=now)
