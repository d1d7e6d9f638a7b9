"""Saved views: kept, renamed, made the default and forgotten by their owner."""

from scheduler.services.saved.keeping import (
    TABLES,
    delete_view,
    rename_view,
    save_view,
    set_default,
)

__all__ = ["TABLES", "delete_view", "rename_view", "save_view", "set_default"]
