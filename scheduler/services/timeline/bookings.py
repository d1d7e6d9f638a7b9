"""Bookings begin and end by time alone: the segments of their devices follow here."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef

from scheduler.ledger.segments import Bucket
from scheduler.models import Claim, DeviceSegment
from scheduler.selectors.calendar.reserved import reserved_devices
from scheduler.services.timeline.segments import follow_devices


def follow_bookings(*, now: datetime) -> int:
    """Let free devices of active bookings be reserved, and those of ended ones free again.

    Also where a job inside moved what a booking of some GPUs of a node is made of. Returns how many
    devices changed; two queries where nothing is booked.
    """
    owned = reserved_devices(now=now)
    is_open = DeviceSegment.objects.filter(end_s__isnull=True).order_by()
    kept = Claim.objects.filter(device=OuterRef("device"))
    over = is_open.filter(~Exists(kept), bucket=str(Bucket.RESERVED_IDLE)).exclude(device__in=owned)
    due = set(over.values_list("device_id", flat=True))
    if owned:
        begun = is_open.filter(device__in=owned, bucket=str(Bucket.FREE))
        due |= set(begun.values_list("device_id", flat=True))
    if not due:
        return 0
    with transaction.atomic():
        return follow_devices(due, now=now, cause="booking")
