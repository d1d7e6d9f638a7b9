"""Deleting what may take long, on a thread: a job can leave a million files."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from scheduler.agent.runtime.space.trees import remove_tree

logger = logging.getLogger(__name__)


class Remover:
    """Deletes one after the other; its thread begins with the first. Thread-safe.

    What an agent did not get to is deleted by the next one: in memory at its start, elsewhere once
    it sweeps.
    """

    def __init__(self) -> None:
        self._wanted: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def remove(self, place: Path) -> None:
        """Nobody needs it any more. Returns at once."""
        if os.path.lexists(place):
            self.have_done(lambda: remove_tree(place))

    def have_done(self, deletion: Callable[[], object]) -> None:
        """Once what was wanted before is gone. Returns at once."""
        self._wanted.put(deletion)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="remove", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            deletion = self._wanted.get()
            try:
                deletion()
            except Exception:
                logger.exception("what jobs left could not be deleted")
