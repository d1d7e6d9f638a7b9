"""Database to Snapshot, in a constant number of queries and without model objects."""

from scheduler.loop.loading.whole import Loaded, load_snapshot

__all__ = ["Loaded", "load_snapshot"]
