"""Whose devices are while a booking is active; for those who account for time, not for a viewer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db.models import QuerySet

from scheduler.models import Allocation, Booking, Device


def active_bookings(now: datetime) -> QuerySet[Booking]:
    """Those that have begun, are not over and were not given back."""
    return Booking.objects.filter(from_at__lte=now, until_at__gt=now, closed_as="")


def reserved_devices(*, now: datetime) -> Mapping[int, Booking]:
    """By device (id), the active booking it belongs to now: held or idle, its owner answers for it.

    Of a node that is booked in part, the free devices of lowest index make up what nobody of the
    booking holds; bookings of one model come before those of any. Three queries; for those who
    account for time, not for a viewer.
    """
    by_node: dict[int, list[Booking]] = {}
    active = active_bookings(now).select_related("project", "team").order_by("pk")
    for booking in sorted(active, key=lambda one: not one.gpu_model):
        for node in booking.node_ids:
            by_node.setdefault(node, []).append(booking)
    if not by_node:
        return {}
    owner: dict[int, Booking] = {}
    devices = list(
        Device.objects.filter(node__in=by_node, is_present=True, in_service=True)
        .order_by("node", "index")
        .values_list("pk", "node", "model")
    )
    held = dict(
        Allocation.objects.filter(device__node__in=by_node, released_at__isnull=True).values_list(
            "device", "placement__attempt__job__booked_in"
        )
    )
    for node, bookings in by_node.items():
        here = [(pk, model) for pk, its_node, model in devices if its_node == node]
        for booking in bookings:
            most = booking.gpus_per_node or len(here)
            # Of a whole node all devices are booked, of whatever model.
            kind = booking.gpu_model if booking.gpus_per_node else ""
            fit = [pk for pk, model in here if kind in ("", model)]
            own = [pk for pk in fit if held.get(pk) == booking.pk]
            idle = [pk for pk in fit if pk not in held and pk not in owner]
            owner |= dict.fromkeys((own + idle)[: max(most, len(own))], booking)
    return owner
