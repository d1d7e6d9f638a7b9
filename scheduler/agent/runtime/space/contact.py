"""When the server was reached last: the agent writes it in place, supervisors count from it.

Twice, below the state folder and in memory: a full or failing disk must not look to supervisors as
if the server were away, for then they would end what runs.

Counted is also the time in which the machine slept: the server, which does not sleep, begins
another copy meanwhile. Earlier agents counted by a clock that stands still then. What they wrote is
read as it was meant, and what is written here has their moment first, for their supervisors that
still run: `BOOT MONOTONIC.mmm` and behind the milliseconds those since the start of the machine.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime import kernel

_DECIMALS = 3
_ROUNDED_UP_S = 0.0005
_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def since_boot() -> float:
    """Seconds since the machine was started, those in which it slept among them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def slept_s() -> float:
    """For how many of them it slept."""
    awake = time.monotonic()
    return max(0.0, since_boot() - awake)


def contact_of(paths: Iterable[str | Path], boot_id: str) -> float:
    """When the latest contact in this boot was that these files tell, as `since_boot` counts; 0.0:
    of none.

    A file may be read while it is written: digits of two moments together are not believed where
    they lie ahead. Nor is another user's file, who could keep alive what has to end.
    """
    latest = 0.0
    for path in paths:
        with suppress(OSError, ValueError):
            if not _is_ours(os.lstat(path)):
                continue
            boot, _, told = kernel.read_small(path).decode().partition(" ")
            at = _moment(told.strip())
            if boot == boot_id and at <= since_boot():
                latest = max(latest, at)
    return latest


def _moment(told: str) -> float:
    """Raises ValueError. Of an earlier agent's nobody knows what was slept since: nothing."""
    awake, since_start = float(told), told.partition(".")[2][_DECIMALS:]
    if since_start:
        return int(since_start) / 1000
    # They rounded to the nearest millisecond: at the moment itself that may lie ahead.
    return awake - _ROUNDED_UP_S + slept_s() if awake > 0 else 0.0


def write_contact(path: Path, boot_id: str, at: float) -> None:
    """Write that the server was reached `at`, as `since_boot` counts.

    Over what is there, always as many bytes: that needs no room. Raises OSError.
    """
    # As if all that was slept had been before: too early at most, as what is left of a millisecond.
    awake_ms = int(max(0.0, at - slept_s()) * 1000)
    awake = f"{awake_ms // 1000:016d}.{awake_ms % 1000:0{_DECIMALS}d}"
    line = f"{boot_id} {awake}{int(at * 1000):013d}\n".encode()
    target = _opened(path)
    try:
        os.pwrite(target, line, 0)
        if os.fstat(target).st_size > len(line):
            os.ftruncate(target, len(line))
    finally:
        os.close(target)


class Silence:
    """For how long the server was not reached, as a supervisor reads it from these files.

    Where it was never reached in this boot that counts from the supervisor's own beginning.
    """

    def __init__(self, paths: Iterable[str | Path], boot_id: str) -> None:
        self._paths, self._boot_id = tuple(paths), boot_id
        self._began = since_boot()
        self._latest = 0.0

    def seconds(self) -> float:
        """So far, also before the supervisor began and while the machine slept."""
        self._latest = max(self._latest, contact_of(self._paths, self._boot_id))
        return since_boot() - (self._latest or self._began)


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1


def _opened(path: Path) -> int:
    """The file, made if there is none; in a folder for everybody another's is not taken for it."""
    with suppress(OSError):
        target = os.open(path, _FLAGS)
        if _is_ours(os.fstat(target)):
            return target
        os.close(target)
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
