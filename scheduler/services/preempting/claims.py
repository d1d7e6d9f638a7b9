"""Rooms that nobody will take up are given back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.statements import AskedOnce
from scheduler import events
from scheduler.models import Claim, Job
from scheduler.services import transitions
from scheduler.services.timeline.segments import follow_devices
from scheduler.states import DeviceHealth, JobState, NodeState


def drop_claims(*, now: datetime) -> int:
    """Give back the rooms that are void; returns of how many jobs. One query if there are none.

    Void is a room whose time is over, whose job wants it no more, or of which a device or node is
    out of order. A job that still waits competes anew.
    """
    jobs = sorted({job_id for (job_id,) in _VOID.read(now)})
    for job_id in jobs:
        drop_room(job_id, now=now)
    return len(jobs)


def _void_at(now: datetime) -> QuerySet[Claim, tuple[Any, ...]]:
    void = (
        Q(expires_at__lte=now)
        | ~Q(job__state__in=(JobState.QUEUED, JobState.STOPPING))
        | ~Q(node__state=NodeState.READY)
        | Q(device__is_present=False)
        | ~Q(device__health=DeviceHealth.HEALTHY)
    )
    return Claim.objects.filter(void).order_by().values_list("job_id")


_VOID = AskedOnce(_void_at)


@transaction.atomic
def drop_room(job_id: int, *, now: datetime) -> None:
    """Give back what is kept for a job, if anything is."""
    claims = Claim.objects.filter(job_id=job_id)
    devices = list(claims.values_list("device_id", flat=True))
    if not devices:
        return
    claims.delete()
    follow_devices(devices, now=now, cause="room_lost")
    job = Job.objects.select_related("pool").get(pk=job_id)
    if job.state == JobState.QUEUED:
        transitions.record_event(job, "room_lost", now=now)
        transitions.tell_of_job(job)
    events.wake_scheduler_on_commit()
