"""Folders of attempts and jobs that nobody looks into any more."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple

from scheduler.agent.setup.folders import ATTEMPTS, CHECKPOINTS, OUTPUTS

_EVERY_S = 600.0
_GONE = ".gone-"


class Live(NamedTuple):
    """Names of folders that are in use: `<fence>-<rank>` of attempts, ids of their jobs."""

    attempts: Collection[str]
    jobs: Collection[str]


class Sweeper:
    """Deletes old folders now and then on a thread, the first time a while after the start.

    Working folders and outputs, which the portal has by then, `keep_s` after the last attempt or
    change, checkpoints after `keep_checkpoints_s`. Under `lock` nobody becomes live.
    """

    def __init__(
        self,
        work: Path,
        keep_s: float,
        keep_checkpoints_s: float,
        lock: AbstractContextManager[object],
    ) -> None:
        self._work = work
        self._keep_s = {ATTEMPTS: keep_s, OUTPUTS: keep_s, CHECKPOINTS: keep_checkpoints_s}
        self._lock = lock
        self.due_at = time.monotonic() + _EVERY_S
        self.thread: threading.Thread | None = None

    def sweep(self, live: Callable[[], Live]) -> None:
        """If it is time, begin: all old folders but those that are `live`."""
        if time.monotonic() < self.due_at or (self.thread is not None and self.thread.is_alive()):
            return
        self.due_at = time.monotonic() + _EVERY_S
        self.thread = threading.Thread(
            target=self._remove_old, args=(live,), name="sweep", daemon=True
        )
        self.thread.start()

    def _remove_old(self, live: Callable[[], Live]) -> None:
        for kind, keep_s in self._keep_s.items():
            for folder in _folders(self._work / kind):
                with suppress(OSError):
                    self._remove_if_old(folder, time.time() - keep_s, live)

    def _remove_if_old(self, folder: Path, since: float, live: Callable[[], Live]) -> None:
        """Raises OSError for what is gone meanwhile."""
        if not folder.name.startswith(_GONE):
            is_attempts = folder.parent.name == ATTEMPTS
            changed = folder.stat().st_mtime > since if is_attempts else _is_newer(folder, since)
            if changed:
                return
            gone = folder.with_name(f"{_GONE}{folder.name}")
            with self._lock:
                names = live()
                if folder.name in (names.attempts if is_attempts else names.jobs):
                    return
                folder = folder.rename(gone)
        shutil.rmtree(folder, ignore_errors=True)


def _folders(place: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from [
            Path(one.path) for one in os.scandir(place) if one.is_dir(follow_symlinks=False)
        ]


def _is_newer(folder: Path, since: float) -> bool:
    """Whether anything in it was written later. Raises OSError for what vanishes."""
    if folder.stat().st_mtime > since:
        return True
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if os.lstat(os.path.join(above, name)).st_mtime > since:
                return True
    return False
