"""Whose devices are while a booking is active; for those who account for time, not for a viewer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.db.models import QuerySet

from scheduler.models import Allocation, Booking, Device

# Devices of a node as they are counted.
IN_ORDER = ("node", "index", "slot", "pk")


def active_bookings(now: datetime) -> QuerySet[Booking]:
    """Those that have begun, are not over and were not given back."""
    return Booking.objects.filter(from_at__lte=now, until_at__gt=now, closed_as="")


def reserved_devices(*, now: datetime) -> Mapping[int, Booking]:
    """By device (id), the active booking it belongs to now: held or idle, its owner answers for it.
    Three queries; for those who account for time, not for a viewer.
    """
    active = list(active_bookings(now).select_related("project", "team"))
    nodes = {node for booking in active for node in booking.node_ids}
    if not nodes:
        return {}
    devices: dict[int, list[tuple[int, str]]] = {}
    rows = Device.objects.filter(node__in=nodes, is_present=True, in_service=True)
    for node, pk, model in rows.order_by(*IN_ORDER).values_list("node", "pk", "model"):
        devices.setdefault(node, []).append((pk, model))
    held = dict(
        Allocation.objects.filter(device__node__in=nodes, released_at__isnull=True).values_list(
            "device", "placement__attempt__job__booked_in"
        )
    )
    return owners_of(active, devices, held)


def owners_of(
    active: Iterable[Booking],
    devices: Mapping[int, Sequence[tuple[int, str]]],
    held: Mapping[int, int | None],
) -> dict[int, Booking]:
    """By device (id) its booking. `devices`: by node id and model of each, IN_ORDER; `held`: by
    device the booking (id) of the job that holds it, None for a job outside all.

    Of a node that is booked in part, the free devices of lowest index make up what nobody of the
    booking holds; bookings of one model come before those of any.
    """
    owner: dict[int, Booking] = {}
    for booking in sorted(active, key=lambda one: (not one.gpu_model, one.pk)):
        for node in booking.node_ids:
            here = devices.get(node, ())
            most = booking.gpus_per_node or len(here)
            # Of a whole node all devices are booked, of whatever model.
            kind = booking.gpu_model if booking.gpus_per_node else ""
            fit = [pk for pk, model in here if kind in ("", model)]
            own = [pk for pk in fit if held.get(pk) == booking.pk]
            idle = [pk for pk in fit if pk not in held and pk not in owner]
            owner |= dict.fromkeys((own + idle)[: max(most, len(own))], booking)
    return owner
