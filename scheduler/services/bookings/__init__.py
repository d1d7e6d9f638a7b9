"""Advance bookings: planned beside each other, used by their owners' jobs, given back if idle."""

from scheduler.services.bookings.closing import (
    cancel_booking,
    end_booked_jobs,
    release_unused,
)
from scheduler.services.bookings.joining import resolve_booking
from scheduler.services.bookings.planning import edit_booking, note_nodes, plan_booking

__all__ = [
    "cancel_booking",
    "edit_booking",
    "end_booked_jobs",
    "note_nodes",
    "plan_booking",
    "release_unused",
    "resolve_booking",
]
