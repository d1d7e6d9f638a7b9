"""Stopping live jobs for others: whom, for whom, and where the rest moves; see `room.py`."""
