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
from scheduler.services.rows.locking import lock_devices_of
from scheduler.states import DeviceHealth


@transaction.atomic
def quarantine_device(
    *, actor: User, device: Device, reason: str, now: datetime | None = None
) -> Device:
    """Take a device out of service until an operator returns it; who runs there goes on.

    It takes the place of a quarantine that would end by itself. Who does it twice has done it once.
    Raises Invalid without a reason, Conflict for one that has failed.
    """
    require_operator(actor)
    now, reason = now or timezone.now(), reason.strip()
    if not reason:
        raise Invalid("Say why, for those who wonder where the GPU is.", field="reason")
    # As it is by now: its node may have told something, or a check may have passed.
    lock_devices_of([device.node_id])
    device.refresh_from_db()
    if device.health == DeviceHealth.QUARANTINED:
        if device.trouble or device.check_at is not None:
            _keep_out(device, actor, reason, now)
        return device
    if device.health not in OFFERED or not transitions.move_device(
        device,
        DeviceHealth.QUARANTINED,
        now=now,
        kind="device_quarantined",
        actor=actor,
        reason=reason,
        trouble="",
        check_at=None,
    ):
        raise Conflict(f"GPU {device.index} is {device.health}; look again, then decide.")
    note_checks(device.node)
    return device


def _keep_out(device: Device, actor: User, reason: str, now: datetime) -> None:
    """Of one that is out for its own trouble: nothing but an operator ends it any more."""
    mine = Device.objects.filter(Q(pk=device.pk) | Q(parent=device))
    mine.update(health_reason=reason[:255])
    Device.objects.filter(pk=device.pk).update(trouble="", check_at=None)
    device.refresh_from_db()
    words = f"GPU {device.index}: {reason}"
    transitions.record_node_event(
        device.node, "device_quarantined", now=now, actor=actor, detail=words
    )
    transitions.tell_of_node(device.node_id)
    note_checks(device.node)


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
