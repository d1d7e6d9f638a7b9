"""Working folders that nobody looks into any more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

_EVERY_S = 600.0


class Sweeper:
    """Deletes old folders of attempts now and then, the first time a while after the start."""

    def __init__(self, work: Path, keep_s: float) -> None:
        self._work, self._keep_s = work, keep_s
        self._swept_at = time.monotonic()

    def sweep(self, live: Callable[[], Collection[str]]) -> None:
        """If it is time: all folders but those whose names are in `live`."""
        if time.monotonic() - self._swept_at > _EVERY_S:
            self._swept_at = time.monotonic()
            remove_old_work(self._work, self._keep_s, live())


def remove_old_work(work: Path, keep_s: float, live: Collection[str]) -> None:
    """Delete attempts' folders that nobody has used for `keep_s`, except those in `live`."""
    root = work / "attempts"
    if not root.is_dir():
        return
    for folder in root.iterdir():
        with suppress(OSError):
            if folder.name not in live and time.time() - folder.stat().st_mtime > keep_s:
                shutil.rmtree(folder, ignore_errors=True)
