"""The folder of an attempt that is not kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime.space.trees import GONE, opened, remove_tree


def remove_scratch(folder: Path, remove: Callable[[Path], object] = remove_tree) -> None:
    """Have `remove` delete what an attempt left there, under a name that sweeping knows, too.

    An empty one goes with the attempt's other folders: a folder deleted at each end makes it slow
    to make the next, and most are empty.
    """
    if _is_empty(folder):
        return
    gone = folder.parent.with_name(f"{GONE}{folder.parent.name}-{folder.name}")
    with suppress(OSError):
        folder = folder.rename(gone)
    remove(folder)


def _is_empty(folder: Path) -> bool:
    """Whether it is a folder, no link to one, and nothing is in it."""
    try:
        with opened(folder) as held, os.scandir(held) as inside:
            return next(inside, None) is None
    except OSError:
        return False
