"""Database to Snapshot, in a constant number of queries and without model objects."""

from scheduler.loop.loading.lending import lent_rows
from scheduler.loop.loading.whole import Kept, Loaded, load_snapshot

__all__ = ["Kept", "Loaded", "lent_rows", "load_snapshot"]
