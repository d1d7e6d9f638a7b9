"""What wakes a supervisor between its looks: a child that ended, the agent's nudge, the host."""

from __future__ import annotations

import os
import signal


class Wakeups:
    """Signals as a descriptor to wait for; `host_stops` once the host has asked us to end."""

    def __init__(self) -> None:
        self.host_stops = False
        self.read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def listen(self) -> None:
        """From here on signals only wake; a terminal's are not for us."""
        for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self._note)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)

    def take(self) -> None:
        """Forget what has woken us so far."""
        os.read(self.read_end, 4096)

    def close(self) -> None:
        """Without an attempt the host's stop ends this process, and a late nudge does nothing."""
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.close(self.read_end)
        os.close(self._write_end)

    def _note(self, number: int, frame: object) -> None:
        if number == signal.SIGTERM:
            self.host_stops = True
