"""Folders of attempts and jobs that nobody looks into any more."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scheduler.agent.client import ServerAway
from scheduler.agent.runtime.space.trees import GONE, opened, remove_tree, walk
from scheduler.agent.setup.folders import ATTEMPTS, CHECKPOINTS, OUTPUTS

_EVERY_S = 600.0
_CLOCK_OFF_S = 3600.0


class Live(NamedTuple):
    """Names of folders that are in use: `<fence>-<rank>` of attempts, ids of their jobs."""

    attempts: Collection[str]
    jobs: Collection[str]


class Sweeper:
    """Deletes old folders now and then on a thread, the first time a while after the start.

    Working folders and outputs, which the portal has by then, `keep_s` after the last attempt or
    change, checkpoints after `keep_checkpoints_s`. Under `lock` nobody becomes live. By a clock
    that is off everything may look old: nothing is deleted where `clock_ahead_s`, as the client has
    it, says so or the server is away.
    """

    def __init__(
        self,
        work: Path,
        keep_s: float,
        keep_checkpoints_s: float,
        lock: AbstractContextManager[object],
        clock_ahead_s: Callable[[], float | None],
    ) -> None:
        self._work = work
        self._keep_s = {ATTEMPTS: keep_s, OUTPUTS: keep_s, CHECKPOINTS: keep_checkpoints_s}
        self._lock = lock
        self._clock_ahead_s = clock_ahead_s
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
        # Asked once there is something to delete.
        is_in_time = cache(self._is_in_time)
        for kind, keep_s in self._keep_s.items():
            for folder in _folders(self._work / kind):
                with suppress(OSError):
                    self._remove_if_old(folder, time.time() - keep_s, live, is_in_time)

    def _is_in_time(self) -> bool:
        try:
            return abs(self._clock_ahead_s() or 0.0) < _CLOCK_OFF_S
        except ServerAway:
            return False

    def _remove_if_old(
        self,
        folder: Path,
        since: float,
        live: Callable[[], Live],
        is_in_time: Callable[[], bool],
    ) -> None:
        """Raises OSError for what is gone meanwhile."""
        if not folder.name.startswith(GONE):
            is_attempts = folder.parent.name == ATTEMPTS
            if _changed_at(os.lstat(folder)) > since or (
                not is_attempts and _is_newer(folder, since)
            ):
                return
            if not is_in_time():
                return
            gone = folder.with_name(f"{GONE}{folder.name}")
            with self._lock:
                names = live()
                if folder.name in (names.attempts if is_attempts else names.jobs):
                    return
                folder = folder.rename(gone)
        remove_tree(folder)


def _folders(place: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from [
            Path(one.path) for one in os.scandir(place) if one.is_dir(follow_symlinks=False)
        ]


def _is_newer(folder: Path, since: float) -> bool:
    """Whether anything in it, as far as it is walked, was written later.

    Raises OSError for what vanishes.
    """
    with opened(folder) as held:
        return any(
            _changed_at(os.stat(name, dir_fd=above, follow_symlinks=False)) > since
            for above, name in walk(held)
        )


def _changed_at(status: os.stat_result) -> float:
    """Seconds since 1970: whoever writes a file may give it any time, but no later change."""
    return min(status.st_mtime, status.st_ctime)
