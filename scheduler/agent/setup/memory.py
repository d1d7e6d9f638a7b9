"""A folder of an attempt that lies in memory alone, so that its content never reaches a disk."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of our own is made below it, closed to others)


def memory_folder(agent: str, fence: int, rank: int) -> Path:
    """Where it lies; `agent` tells two agents of one host apart."""
    return _MEMORY / f"{agent}-{fence}-{rank}"


def make_memory_folder(place: Path, uid: int | None) -> Path:
    """Create it anew, empty, for `uid` alone; raises OSError."""
    remove_memory_folder(str(place))
    place.mkdir(mode=0o700)
    if uid is not None:
        os.chown(place, uid, uid)
    return place


def remove_memory_folder(place: str) -> None:
    """Give the memory back; nothing happens when there is none."""
    if place:
        shutil.rmtree(place, ignore_errors=True)
