"""One scheduler at a time: a row with an expiry, and a token that fences late commits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from scheduler.models import SchedulerLease

NAME = "scheduler"
# A holder that dies without a word is replaced after this time.
LEASE_S = 6
# Renewed once this much of it is gone, so that a quiet cycle writes nothing.
RENEW_AFTER_S = 2


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to commit; `token` is checked inside every commit's transaction."""

    holder: str
    token: int
    expires_at: datetime


def acquire_lease(holder: str, *, now: datetime) -> Lease | None:
    """Take the lease if nobody holds it. A token is used once, so a late holder is found out."""
    expires_at = now + timedelta(seconds=LEASE_S)
    # Looked at first, so that those who wait for the lease write nothing.
    if SchedulerLease.objects.filter(name=NAME, expires_at__gt=now).exists():
        return None
    with transaction.atomic():
        SchedulerLease.objects.get_or_create(name=NAME, defaults={"expires_at": now})
        taken = SchedulerLease.objects.filter(name=NAME, expires_at__lte=now).update(
            holder=holder, token=F("token") + 1, expires_at=expires_at
        )
        if not taken:
            return None
        token = SchedulerLease.objects.values_list("token", flat=True).get(name=NAME)
    return Lease(holder, token, expires_at)


def renew_lease(lease: Lease, *, now: datetime) -> Lease | None:
    """The lease with a later expiry; None if another has taken it."""
    left_s = (lease.expires_at - now).total_seconds()
    # More than a whole lease: the clock was put back, and nobody could follow for as long.
    if LEASE_S - RENEW_AFTER_S < left_s <= LEASE_S:
        return lease
    expires_at = now + timedelta(seconds=LEASE_S)
    kept = SchedulerLease.objects.filter(name=NAME, token=lease.token).update(expires_at=expires_at)
    return Lease(lease.holder, lease.token, expires_at) if kept else None


def release_lease(lease: Lease, *, now: datetime) -> None:
    """Let the next one in at once; harmless if another has taken it already."""
    SchedulerLease.objects.filter(name=NAME, token=lease.token).update(holder="", expires_at=now)
