"""The GPUs of the nodes of an attempt: its own, those that others hold, and those that are free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Value

from scheduler.models import Allocation, Attempt, Device
from scheduler.states import AttemptState


@dataclass(frozen=True, slots=True)
class Beside:
    """A GPU of such a node. `is_held`: by another attempt now; of a past one nobody asks."""

    device: Device
    is_mine: bool
    is_held: bool


def devices_beside(attempt: Attempt, *, nodes: int) -> Mapping[int, list[Beside]]:
    """By node of the first `nodes` ranks all GPUs there in order; one query.

    For an attempt whose reader was checked, with its placements and allocations prefetched.
    """
    placements = list(attempt.placements.all())[:nodes]
    own = {one.device_id for placement in placements for one in placement.allocations.all()}
    ids = [placement.node_id for placement in placements]
    held: Exists | Value = Exists(
        Allocation.objects.filter(device=OuterRef("pk"), released_at__isnull=True)
    )
    if attempt.state == AttemptState.ENDED:
        held = Value(False)
    found: dict[int, list[Beside]] = {node: [] for node in ids}
    there = Device.objects.filter(node__in=ids, is_present=True, in_service=True)
    for device in there.annotate(held_=held).order_by("node_id", "index", "slot", "id"):
        is_mine = device.pk in own
        found[device.node_id].append(Beside(device, is_mine, device.held_ and not is_mine))
    return found
