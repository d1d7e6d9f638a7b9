"""Devices that a placement gives back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import DateTimeField, F, QuerySet, Value
from django.db.models.functions import Greatest

from accounts.statements import BuiltOnce, ChangedOnce, empty_here
from scheduler import events
from scheduler.models import Allocation, Placement
from scheduler.services.gathering import Step, afterwards
from scheduler.services.sharing.guard import release_held
from scheduler.services.timeline.segments import follow_devices


def release_devices(placement: Placement, *, now: datetime) -> None:
    """Close the placement's open allocations; who waits for the devices is looked at at once."""
    afterwards(Step.RELEASE, _release_all, [placement], now=now)


def _held_by(placements: Sequence[int]) -> QuerySet[Allocation, tuple[Any, ...]]:
    held = Allocation.objects.filter(empty_here("released_at"), placement_id__in=placements)
    return held.order_by().values_list(
        "placement_id", "device_id", "device__model", "device__milli"
    )


def _close(placements: Sequence[int], now: datetime) -> tuple[QuerySet[Allocation], dict[str, Any]]:
    held = Allocation.objects.filter(empty_here("released_at"), placement_id__in=placements)
    # A clock that was put back since must not make the time that is charged negative.
    return held, {"released_at": Greatest(F("acquired_at"), Value(now, DateTimeField()))}


_HELD, _CLOSED = BuiltOnce(_held_by), ChangedOnce(_close)


def _release_all(placements: Sequence[Placement], *, now: datetime) -> None:
    ids = [one.pk for one in placements]
    models: dict[int, dict[int, tuple[str, int]]] = {}
    for placement_id, device_id, model, milli in _HELD.rows(ids):
        models.setdefault(placement_id, {})[device_id] = (model, milli)
    if not models:
        return
    _CLOSED.change(ids, now)
    devices = [device_id for of in models.values() for device_id in of]
    afterwards(Step.FOLLOW, follow_devices, devices, now=now, cause="released")
    release_held({pk: list(of.values()) for pk, of in models.items()})
    events.wake_scheduler_on_commit()
