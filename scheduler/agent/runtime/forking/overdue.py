"""What an agent does for a supervisor that somebody stopped or that hangs.

A supervisor holds every deadline itself, so that the agent may die. Here the agent holds them too,
a little later: a program whose guard does not run ends all the same, before another copy begins.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from scheduler.agent.runtime import killing, processes
from scheduler.agent.runtime.notices import unreached
from scheduler.agent.runtime.records import LaunchRecord, StopRecord, SupervisorRecord
from scheduler.agent.runtime.space.contact import since_boot

# A stopped one is woken, then killed; one that runs may be late on a busy node.
_STOPPED_S, _STOPPED_AGAIN_S, _HANGING_S = 2.0, 4.0, 30.0
# As /proc tells it: by a signal, by a debugger.
_STOPPED_STATES = "Tt"


@dataclass(frozen=True, slots=True)
class Due:
    """Why a program should be over, and for how long already; below zero while it may run."""

    why: str
    late_s: float


class Deadlines:
    """Those of one attempt, as far as its agent knows them, by its monotonic clock; how long the
    server was silent, as `since_boot` counts.

    `limit_s`: how long it may run, as it was told last.
    """

    def __init__(self, limit_s: Callable[[], int], *, ordered: bool) -> None:
        self._limit_s = limit_s
        self._ordered_at = time.monotonic() if ordered else 0.0
        self._running_since: float | None = None
        self._killed_at = 0.0

    @property
    def has_killed(self) -> bool:
        """Whether a program had to be ended from here."""
        return self._killed_at > 0

    def note_order(self) -> None:
        """It was ordered to stop."""
        self._ordered_at = time.monotonic()

    def note_start(self) -> None:
        """Its program was seen to run."""
        self._running_since = time.monotonic()

    def due(self, launch: LaunchRecord, stop: StopRecord | None, reached_at: float) -> Due:
        """What has passed for the longest. `reached_at`: when the server was reached last."""
        now = time.monotonic()
        silent_s, grace_s = since_boot() - reached_at, launch.stop_grace_s
        lost = Due(unreached(silent_s), silent_s - launch.disconnect_grace_s - grace_s)
        if stop is not None:
            ordered = Due("it was to stop", now - self._ordered_at - stop.grace_s)
            return max(ordered, lost, key=lambda due: due.late_s)
        ran_s = now - self._running_since if self._running_since is not None else 0.0
        if lost.late_s > 0 or not 0 < launch.time_limit_s + grace_s < ran_s:
            return lost
        # Its time may have been made longer since.
        return Due("its time was up", ran_s - self._limit_s() - grace_s)

    def enforce(
        self,
        launch: LaunchRecord | None,
        stop: StopRecord | None,
        guard: SupervisorRecord,
        reached_at: float,
        *,
        is_alone: bool = False,
    ) -> str:
        """End what should long be over; why, where the supervisor had to go with it.

        One that is woken does the rest itself, and loses nothing of the log. `is_alone`: it was not
        to be told of the order, so nobody else carries that out.
        """
        if launch is None:
            return ""
        due = self.due(launch, stop, reached_at)
        if due.late_s > _STOPPED_S and _is_stopped(guard):
            if due.late_s <= _STOPPED_AGAIN_S:
                send(guard, signal.SIGCONT)
                return ""
            send(guard, signal.SIGKILL)
            return due.why
        patience_s = 0.0 if is_alone else _HANGING_S
        if due.late_s > patience_s and time.monotonic() - self._killed_at > _HANGING_S:
            # It may be writing the end of the log to a full disk: only its program is in the way.
            self._killed_at = time.monotonic()
            if processes.carrying(launch.marker):
                killing.kill_remains(launch.marker, launch.uid, guard.cgroups)
        return ""


def _is_stopped(supervisor: SupervisorRecord) -> bool:
    fields = processes.stat_fields(supervisor.pid)
    return fields is not None and fields[0] in _STOPPED_STATES


def send(supervisor: SupervisorRecord, number: signal.Signals) -> None:
    """Signal a supervisor through a handle, so that a reused pid is never hit."""
    with suppress(OSError):
        handle = os.pidfd_open(supervisor.pid)
        try:
            if processes.is_alive(supervisor.pid, supervisor.start_ticks):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
