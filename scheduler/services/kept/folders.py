"""Folders of the store: what lies in one that is given up, and folders that are empty by then.

Stores without folders have none that stay.
"""

from __future__ import annotations

from contextlib import suppress

from django.core.files.storage import default_storage


def clear_folder(folder: str) -> None:
    """Delete a folder with all files in it; raises OSError for what cannot be deleted."""
    with suppress(FileNotFoundError):
        for name in default_storage.listdir(folder)[1]:
            default_storage.delete(f"{folder}/{name}")
        default_storage.delete(folder)


def remove_if_empty(folder: str) -> None:
    """Only of what is over: a file that is being stored meanwhile would miss its folder."""
    with suppress(OSError):
        default_storage.delete(folder)
