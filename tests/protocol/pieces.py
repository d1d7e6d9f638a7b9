"""Stored bytes of logs; a piece is named by its contents, so what was read once stays true."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.files.storage import default_storage

from scheduler.invariants.rows import Row


def pieces_of(chunks: Iterable[Row]) -> dict[str, bytes]:
    """By path; what is missing is left out."""
    found = {}
    for row in chunks:
        if default_storage.exists(row["path"]):
            with default_storage.open(row["path"]) as stored:
                found[row["path"]] = stored.read()
    return found
