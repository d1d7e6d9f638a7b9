"""What production can always have, and who holds it now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accounts.models import User
from scheduler.models import Device, Headroom
from scheduler.states import DeviceHealth, NodeState, Tier


@dataclass(frozen=True, slots=True)
class HeadroomView:
    """Of the GPUs in order: held by production, lent to jobs that can be stopped, and free."""

    headroom: Headroom
    in_production: int
    lent: int
    free: int


def headroom_views(viewer: User) -> list[HeadroomView]:
    """All of it; everybody who is signed in may see it. Two queries."""
    if not viewer.is_authenticated:
        return []
    rows = list(Headroom.objects.select_related("pool"))
    job = "allocations__placement__attempt__job__"
    in_order = Device.objects.filter(
        node__pool__in={row.pool_id for row in rows},
        node__state=NodeState.READY,
        health=DeviceHealth.HEALTHY,
        is_present=True,
        in_service=True,
    )
    free = dict.fromkeys(in_order.values_list("pk", "node__pool_id", "model"))
    held = list(
        in_order.filter(allocations__isnull=False, allocations__released_at__isnull=True)
        .order_by()
        .values_list(
            "pk",
            "node__pool_id",
            "model",
            f"{job}tier",
            f"{job}preemptible",
            f"{job}min_runtime_s",
        )
    )
    for device in held:
        free.pop(device[:3], None)
    return [
        HeadroomView(
            row,
            in_production=sum(
                tier >= Tier.PRODUCTION for *what, tier, _, _ in held if _is_of(row, what)
            ),
            lent=sum(
                tier < Tier.PRODUCTION and stops and not least_s
                for *what, tier, stops, least_s in held
                if _is_of(row, what)
            ),
            free=sum(_is_of(row, what) for what in free),
        )
        for row in rows
    ]


def _is_of(row: Headroom, what: Iterable[object]) -> bool:
    _, pool, model = what
    return pool == row.pool_id and row.gpu_model in ("", model)
