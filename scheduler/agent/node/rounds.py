"""One thread that looks at all that is quiet, so that each has its own only once there is work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_EVERY_S = 0.15

# Looks, and says whether it wants to be asked again.
Look = Callable[[], bool]

logger = logging.getLogger(__name__)


class Rounds:
    """Equals a thread for each that looks as often. A look must not wait for anybody."""

    def __init__(self) -> None:
        self._looks: list[Look] = []
        self._some = threading.Event()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, look: Look) -> None:
        """Ask `look` from now on, until it wants no more."""
        with self._lock:
            self._looks.append(look)
            self._some.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._go, name="rounds", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        self._some.set()

    def _go(self) -> None:
        while not self._closing.wait(_EVERY_S):
            with self._lock:
                looks, self._looks = self._looks, []
            left = [look for look in looks if _again(look)]
            with self._lock:
                self._looks = left + self._looks
                if not self._looks:
                    self._some.clear()
            self._some.wait()


def _again(look: Look) -> bool:
    try:
        return look()
    except Exception:
        logger.exception("a look failed; the next may not")
        return True
