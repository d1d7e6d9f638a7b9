"""Whether a booking could be made, before it is."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from scheduler.services.bookings.planning import plan_booking


def check_booking(**asked: Any) -> list[int]:
    """The nodes that `plan_booking` would take now; raises what it raises and leaves nothing."""
    with transaction.atomic():
        booking = plan_booking(**asked)
        transaction.set_rollback(True)
    return list(booking.node_ids)
