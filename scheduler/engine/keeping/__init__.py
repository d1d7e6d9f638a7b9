"""The time to come: room kept for heads, bookings and maintenance, and what was promised before."""
