"""One scheduler at a time: a row with an expiry, and a token that fences late commits."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from scheduler.agent.runtime.processes import boot_id, is_alive, start_ticks
from scheduler.models import SchedulerLease

NAME = "scheduler"
LEASE_S = SchedulerLease.LASTS_S
# Renewed once this much of it is gone, so that a quiet cycle writes nothing.
RENEW_AFTER_S = 2
_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to commit; `token` is checked inside every commit's transaction."""

    holder: str
    token: int
    expires_at: datetime


def acquire_lease(holder: str, *, now: datetime) -> Lease | None:
    """Take the lease if nobody holds it. A token is used once, so a late holder is found out.

    Of a holder on this host that has ended it is taken before it expires.
    """
    expires_at = now + timedelta(seconds=LEASE_S)
    is_free = Q(expires_at__lte=now)
    # Looked at first, so that those who wait for the lease write nothing.
    held = SchedulerLease.objects.filter(name=NAME, expires_at__gt=now)
    for other, others_token in held.values_list("holder", "token"):
        if not has_ended(other):
            return None
        is_free |= Q(holder=other, token=others_token)
    with transaction.atomic():
        SchedulerLease.objects.get_or_create(name=NAME, defaults={"expires_at": now})
        taken = SchedulerLease.objects.filter(is_free, name=NAME).update(
            holder=holder, token=F("token") + 1, expires_at=expires_at
        )
        if not taken:
            return None
        token = SchedulerLease.objects.values_list("token", flat=True).get(name=NAME)
    return Lease(holder, token, expires_at)


def take_lease(holder: str, *, now: datetime) -> Lease:
    """Take the lease from whoever has it, for what must not happen beside a scheduler.

    What the one before had planned is refused by the token, and it waits as any other that has
    lost the lease.
    """
    expires_at = now + timedelta(seconds=LEASE_S)
    with transaction.atomic():
        SchedulerLease.objects.get_or_create(name=NAME, defaults={"expires_at": now})
        SchedulerLease.objects.filter(name=NAME).update(
            holder=holder, token=F("token") + 1, expires_at=expires_at
        )
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


def keep_lease(lease: Lease) -> Lease | None:
    """The lease as it is, for a holder that could not decide: it runs out, and another may take
    it; None if one has. Commits stay fenced by its token, so nobody is harmed by going on.
    """
    is_ours = SchedulerLease.objects.filter(name=NAME, token=lease.token).exists()
    return lease if is_ours else None


def release_lease(lease: Lease, *, now: datetime) -> None:
    """Let the next one in at once; harmless if another has taken it already."""
    SchedulerLease.objects.filter(name=NAME, token=lease.token).update(holder="", expires_at=now)


def own_name() -> str:
    """What this process is called as a holder: `HOST MARK/TICKS:PID`, at most 128 characters.

    Others on the same host see by it when the process has ended.
    """
    pid = os.getpid()
    return f"{socket.gethostname()[:_SHOWN]} {_mark()}/{start_ticks(pid) or 0}:{pid}"


def has_ended(name: str) -> bool:
    """Whether the process that called itself so is known to be gone.

    Only what is certain counts: a process of this boot, this namespace of processes and this user,
    whose files below `/proc` nobody can hide from us. Of all others the lease runs out.
    """
    who, _, pid = name.rpartition(":")
    mark, _, ticks = who.rpartition(" ")[2].rpartition("/")
    if mark != _mark() or not (pid.isdecimal() and ticks.isdecimal()):
        return False
    return not is_alive(int(pid), int(ticks))


def _mark() -> str:
    """Where a process id means the same process, and its files are ours to read."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return ""
    return f"{boot_id()[:8]}-{namespace}-{os.geteuid()}"
