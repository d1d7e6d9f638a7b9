"""Writers of one process wait for each other at a lock, not in SQLite's own sleep.

SQLite has one writer. A second one sleeps, ever longer, up to a tenth of a second, and looks
again; with a handful of threads that write in short transactions most of the time is slept away.
Here a thread that begins a transaction first takes its process's turn, so at most one thread of
each process stands before the file, and that one looks every millisecond. Equal to Django's
backend in everything but the waiting: the same transactions, the same time limit, the same error.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

LOOK_EVERY_S = 0.001
DEFAULT_TIMEOUT_S = 5.0
_BUSY = "database is locked"

_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection whose transactions begin in turn."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._turn: threading.Lock | None = None

    def _start_transaction_under_autocommit(self) -> None:
        timeout_s = float(self.settings_dict["OPTIONS"].get("timeout", DEFAULT_TIMEOUT_S))
        deadline = time.monotonic() + timeout_s
        turn = _turns[str(self.settings_dict["NAME"])]
        if not turn.acquire(timeout=timeout_s):
            raise OperationalError(_BUSY)
        self._turn = turn
        try:
            self._begin(deadline, timeout_s)
        except BaseException:
            self._give_turn()
            raise

    def _begin(self, deadline: float, timeout_s: float) -> None:
        begin = super()._start_transaction_under_autocommit  # type: ignore[misc]
        self._wait_at_most(0)
        try:
            while True:
                try:
                    begin()
                except OperationalError as error:
                    if _BUSY not in str(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(LOOK_EVERY_S)
                else:
                    return
        finally:
            self._wait_at_most(timeout_s)

    def _wait_at_most(self, seconds: float) -> None:
        """How long SQLite itself waits for the file: statements outside of transactions do."""
        self.connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def _give_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()

    def _then_give_turn(self, end: Callable[[], None]) -> None:
        try:
            end()
        finally:
            if not (self.connection and self.connection.in_transaction):
                self._give_turn()

    def _commit(self) -> None:
        self._then_give_turn(super()._commit)  # type: ignore[misc]

    def _rollback(self) -> None:
        self._then_give_turn(super()._rollback)  # type: ignore[misc]

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            self._give_turn()
