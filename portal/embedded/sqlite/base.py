"""Writers of one process wait for each other at a lock, and none of them waits inside SQLite.

SQLite has one writer. A second one sleeps, ever longer, up to a tenth of a second, and looks
again; with a handful of threads that write in short transactions most of the time is slept away.
Here a thread that begins a transaction first takes its process's turn, so at most one thread of
each process stands before the file, and that one looks every millisecond. Equal to Django's
backend in everything but the waiting: the same transactions, the same time limit, the same error.

Who sleeps inside SQLite also keeps its connection locked. A cursor that was left behind, in an
error's traceback say, is given up by whatever thread collects garbage, and giving it up takes that
lock: the writer whose end the sleeper awaits then awaits the sleeper, until the time limit.

Moments are read once for each text: rows that were written together, all devices of a gang say,
have the same, and reading one takes longer than most of what is done with it.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.backends.sqlite3.operations import DatabaseOperations
from django.db.utils import OperationalError
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_aware, make_aware

LOOK_EVERY_S = 0.001
DEFAULT_TIMEOUT_S = 5.0
# Not here: a snapshot that is too old for writing stays so however long one waits.
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY)

# Texts and moments that are remembered.
_MOMENTS = 4096

_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


class PatientCursor(base.SQLiteCursorWrapper):
    """Looks again while another writer has the file: a statement that met one has done nothing.

    Many rows in one call (`executemany`) are for inside a transaction, where nobody is met.
    """

    deadline: Callable[[], float] = staticmethod(time.monotonic)

    def execute(self, query: str, params: Any = None) -> Any:
        deadline = None
        while True:
            try:
                return super().execute(query, params)
            except sqlite3.OperationalError as error:
                # Errors that Python itself raises have no code.
                if getattr(error, "sqlite_errorcode", None) not in _PASSING:
                    raise
                deadline = deadline or self.deadline()
                if time.monotonic() > deadline:
                    raise
            time.sleep(LOOK_EVERY_S)

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        """Equals Django's, which looks for doubled signs at each place of each statement, also of
        those with thousands of places."""
        if param_names is None and "%%" not in query:
            return query.replace("%s", "?")
        return str(super().convert_query(query, param_names=param_names))


@lru_cache(_MOMENTS)
def _moment(told: bytes) -> datetime | None:
    return parse_datetime(told.decode())


# The driver reads a column by the type it was declared with; as Django has it read.
for _declared in ("datetime", "timestamp"):
    sqlite3.register_converter(_declared, _moment)


@lru_cache(_MOMENTS)
def _aware(value: str | datetime, zone: tzinfo) -> datetime | None:
    moment = parse_datetime(value) if isinstance(value, str) else value
    return moment if moment is None or is_aware(moment) else make_aware(moment, zone)


class Operations(DatabaseOperations):
    """Equals Django's, but that equal moments are made once."""

    def convert_datetimefield_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else _aware(value, self.connection.timezone)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection whose transactions begin in turn."""

    ops_class = Operations

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._turn: threading.Lock | None = None
        self._deadline: float | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Opened with SQLite's own waiting; from then on cursors wait."""
        connection = super().get_new_connection(conn_params)
        connection.execute("PRAGMA busy_timeout = 0")
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        cursor = self.connection.cursor(factory=PatientCursor)
        cursor.deadline = self._until
        return cursor

    def _until(self) -> float:
        if self._deadline is not None:
            return self._deadline
        return time.monotonic() + self._timeout_s()

    def _timeout_s(self) -> float:
        return float(self.settings_dict["OPTIONS"].get("timeout", DEFAULT_TIMEOUT_S))

    def _start_transaction_under_autocommit(self) -> None:
        timeout_s = self._timeout_s()
        self._deadline = time.monotonic() + timeout_s
        turn = _turns[str(self.settings_dict["NAME"])]
        try:
            if not turn.acquire(timeout=timeout_s):
                raise OperationalError("database is locked")
            self._turn = turn
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._give_turn()
            raise
        finally:
            self._deadline = None

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
