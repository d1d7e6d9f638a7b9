"""The folder of an attempt that is not kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def remove_scratch(folder: Path) -> None:
    """Delete what an attempt left there; an empty one goes with the attempt's other folders.

    A folder deleted at each end makes it slow to make the next, and most are empty.
    """
    if not _is_empty(folder):
        # What is in it is the job's: links may be anywhere.
        shutil.rmtree(folder, ignore_errors=True)


def _is_empty(folder: Path) -> bool:
    """Whether it is a folder, no link to one, and nothing is in it."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not os.listdir(held)
    finally:
        os.close(held)
