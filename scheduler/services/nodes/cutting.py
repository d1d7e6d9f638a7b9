"""Cards cut into equal slots by an operator, each a device with a name and a price of its own."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import User
from accounts.selectors.rates import current_rates
from scheduler import events
from scheduler.models import Allocation, Claim, Device
from scheduler.models.cluster import slot_model
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.history import record_node_event, tell_of_node
from scheduler.services.nodes.register import require_operator
from scheduler.services.rows.locking import lock_starts
from scheduler.services.timeline.segments import follow_devices
from scheduler.spec.values import WHOLE_MILLI

MOST_SLOTS = 16
# How slots are kept apart. Separate hardware is nothing a server could switch on: see MIG.
SLOT_ISOLATIONS = ("timeslice", "mps")


@transaction.atomic
def cut_card(
    *,
    actor: User,
    device: Device,
    slots: int,
    isolation: str = "timeslice",
    now: datetime | None = None,
) -> Device:
    """Offer a card nobody holds as so many equal slots; 1 makes it whole again.

    Raises Invalid, also while a slot has no price of its own (it would cost as much as the card),
    and Conflict while the card is held, kept for a job, or in MIG instances.
    """
    require_operator(actor)
    now = now or timezone.now()
    # Who starts jobs holds this row too, so that nothing is placed here meanwhile.
    lock_starts()
    card = Device.objects.select_for_update(of=("self",)).select_related("node").get(pk=device.pk)
    _check(card, slots, isolation)
    _refuse_in_use(card)
    if slots > 1:
        _refuse_without_price(slot_model(card.model, slots), now)
    gone = card.slots.filter(in_service=True)
    touched = [card.pk, *gone.values_list("pk", flat=True)]
    gone.update(in_service=False, is_present=False)
    Device.objects.filter(pk=card.pk).update(in_service=slots == 1)
    if slots > 1:
        touched += [_slot(card, number, slots, isolation).pk for number in range(slots)]
    follow_devices(touched, now=now, cause="cut")
    detail = f"GPU {card.index}: {slots} slots, {isolation}" if slots > 1 else f"GPU {card.index}"
    kind = "device_cut" if slots > 1 else "device_made_whole"
    record_node_event(card.node, kind, now=now, actor=actor, detail=detail)
    tell_of_node(card.node_id)
    events.wake_scheduler_on_commit()
    card.refresh_from_db()
    return card


def _check(card: Device, slots: int, isolation: str) -> None:
    if card.is_part:
        raise Invalid("Cut the card, not a part of it.", field="action")
    if not 1 <= slots <= MOST_SLOTS:
        raise Invalid(f"Give 1 to {MOST_SLOTS} slots; 1 makes the card whole again.", field="slots")
    if isolation not in SLOT_ISOLATIONS:
        raise Invalid(
            "Choose timeslice, or mps if NVIDIA's MPS daemon serves jobs there. MIG instances are "
            "made on the node (nvidia-smi mig) and show up by themselves.",
            field="isolation",
        )
    if card.slots.filter(in_service=True, slot__isnull=True).exists():
        raise Conflict("The card is in MIG instances. Remove them on the node first.")


def _refuse_in_use(card: Device) -> None:
    here = Q(device=card) | Q(device__parent=card)
    if Allocation.objects.filter(here, released_at__isnull=True).exists():
        raise Conflict("A job holds the card. Take it out of service and wait for the job's end.")
    if Claim.objects.filter(here).exists():
        raise Conflict("The card is kept for a job that others make room for. Try again later.")


def _refuse_without_price(model: str, now: datetime) -> None:
    rates = current_rates(now=now)
    if rates and not any(rate.device_model == model for rate in rates):
        raise Invalid(
            f"There is no price for {model}, so each slot would cost as much as a card. Set one "
            "first, such as the card's divided by the slots.",
            field="slots",
        )


def _slot(card: Device, number: int, slots: int, isolation: str) -> Device:
    milli = WHOLE_MILLI // slots
    row, _ = Device.objects.update_or_create(
        uuid=f"{card.uuid[:80]}/{slots}.{number + 1}",
        defaults={
            "node_id": card.node_id,
            "parent": card,
            "index": card.index,
            "slot": number,
            "model": slot_model(card.model, slots),
            "memory_mib": card.memory_mib // slots,
            "link_group": card.link_group,
            "health": card.health,
            "health_reason": card.health_reason,
            "isolation": isolation,
            "milli": milli,
            "is_simulated": card.is_simulated,
            "is_present": card.is_present,
            "in_service": True,
        },
    )
    return row
