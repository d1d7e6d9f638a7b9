"""What operators do to a device by hand: out of service, checked, back, cut into parts."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import User
from scheduler.models import Allocation, Device, Node
from scheduler.services import transitions
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.nodes.health import OFFERED, note_checks
from scheduler.services.nodes.register import require_operator
from scheduler.states import DeviceHealth


@transaction.atomic
def quarantine_device(
    *, actor: User, device: Device, reason: str, now: datetime | None = None
) -> Device:
    """Take a device out of service until an operator returns it; who runs there goes on."""
    require_operator(actor)
    if not reason.strip():
        raise Invalid("Say why, for those who wonder where the GPU is.", field="reason")
    if device.health in OFFERED:
        transitions.move_device(
            device,
            DeviceHealth.QUARANTINED,
            now=now or timezone.now(),
            kind="device_quarantined",
            actor=actor,
            reason=reason.strip(),
            trouble="",
            check_at=None,
        )
        note_checks(device.node)
    return device


@transaction.atomic
def check_device(*, actor: User, device: Device, now: datetime | None = None) -> Device:
    """Have the node try the device out; it returns if it passes."""
    require_operator(actor)
    now = now or timezone.now()
    if device.health in OFFERED:
        raise Conflict("The GPU is in service already.")
    here = Q(device=device) | Q(device__parent=device)
    if Allocation.objects.filter(here, released_at__isnull=True).exists():
        raise Conflict("A job still holds the GPU. Cancel it or wait for its end.")
    Device.objects.filter(pk=device.pk).update(check_at=now)
    Node.objects.filter(pk=device.node_id).update(has_checks=True)
    transitions.record_node_event(
        device.node, "device_check", now=now, actor=actor, detail=f"GPU {device.index}"
    )
    transitions.change_desired([device.node_id])
    device.refresh_from_db()
    return device


@transaction.atomic
def return_device(*, actor: User, device: Device, now: datetime | None = None) -> Device:
    """Put a device back into service without a check, on the operator's word."""
    require_operator(actor)
    if device.health not in OFFERED:
        transitions.move_device(
            device,
            DeviceHealth.HEALTHY,
            now=now or timezone.now(),
            kind="device_returned",
            actor=actor,
            trouble="",
            check_at=None,
        )
        note_checks(device.node)
    return device


def act_on_device(
    *,
    actor: User,
    device: Device,
    action: str,
    reason: str = "",
    slots: int = 1,
    isolation: str = "timeslice",
) -> Device:
    """What an operator asks for by name: `quarantine`, `check`, `return`, or `cut` into slots."""
    if action == "cut":
        return cut_card(actor=actor, device=device, slots=slots, isolation=isolation)
    if action == "quarantine":
        return quarantine_device(actor=actor, device=device, reason=reason)
    if action == "check":
        return check_device(actor=actor, device=device)
    if action == "return":
        return return_device(actor=actor, device=device)
    require_operator(actor)
    raise Invalid("Choose quarantine, check, return or cut.", field="action")
