"""When the server was reached last: the agent writes it in place, supervisors count from it.

Twice, below the state folder and in memory: a full or failing disk must not look to supervisors as
if the server were away, for then they would end what runs.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime import kernel

_FLAGS = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def contact_of(paths: Iterable[str | Path], boot_id: str) -> float:
    """Monotonic seconds of the latest contact in this boot that these files tell; 0.0: of none.

    A file may be read while it is written: digits of two moments together are not believed where
    they lie ahead. Nor is another user's file, who could keep alive what has to end.
    """
    latest = 0.0
    for path in paths:
        with suppress(OSError, ValueError):
            if not _is_ours(os.lstat(path)):
                continue
            boot, _, at = kernel.read_small(path).decode().partition(" ")
            if boot == boot_id and float(at) <= time.monotonic():
                latest = max(latest, float(at))
    return latest


def write_contact(path: Path, boot_id: str, at: float) -> None:
    """Write over what is there, always as many bytes: that needs no room. Raises OSError."""
    line = f"{boot_id} {at:020.3f}\n".encode()
    target = _opened(path)
    try:
        os.pwrite(target, line, 0)
        if os.fstat(target).st_size > len(line):
            os.ftruncate(target, len(line))
    finally:
        os.close(target)


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
