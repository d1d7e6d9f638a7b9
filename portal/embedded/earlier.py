"""What a start finds of the one before, if that was killed: its supervisord, which still stops its
programs. They hold their ports until then.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from portal.embedded.places import Places, StackProblem

# How long one of an earlier start may take to stop its programs.
EARLIER_S = 90.0
# pid, user and group of who listens at a Unix socket.
_PEER = struct.Struct("3i")


def configuration_of(places: Places) -> Path:
    """What supervisord is started with."""
    return places.state / "supervisord.conf"


def wait_for_earlier(
    places: Places, tell: Callable[[str], None], timeout_s: float = EARLIER_S
) -> None:
    """Return once nobody listens at supervisord's socket, which it removes as its last. `tell`
    hears what is waited for, and until when. Raises StackProblem: they do not end, or are those of
    another folder, which no wait would end.
    """
    pid = _listener(places.supervisor_socket)
    if pid is None:
        return
    which = f"process {pid}" if pid else f"who listens at {places.supervisor_socket}"
    its = _configuration(pid)
    if its not in (None, configuration_of(places)):
        raise StackProblem(
            f"{places.run} is in use by {its.parent} ({which}); "
            "set TRAINYARD_RUN_DIR to a folder for this one alone"
        )
    if its:
        # It is told once more: who was told already goes on as before.
        with suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    until = f"{datetime.now().astimezone() + timedelta(seconds=timeout_s):%H:%M:%S}"
    tell(
        f"waiting for the programs of the last start, which was killed, to end ({which}), "
        f"until {until} at the latest"
    )
    deadline = time.monotonic() + timeout_s
    while _listener(places.supervisor_socket) is not None:
        if time.monotonic() > deadline:
            raise StackProblem(
                "the programs of the last start are still there; end the supervisord that "
                f"listens at {places.supervisor_socket}" + (f": kill -9 {pid}" if pid else "")
            )
        time.sleep(0.1)


def _listener(path: Path) -> int | None:
    """The process that takes connections at this socket, 0 where the system does not say which;
    None: nobody does."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(5)
        try:
            line.connect(str(path))
        except OSError as problem:
            # Its queue is full.
            return 0 if isinstance(problem, TimeoutError | BlockingIOError) else None
        if not hasattr(socket, "SO_PEERCRED"):
            return 0
        found: int = _PEER.unpack(
            line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        )[0]
        return found


def _configuration(pid: int) -> Path | None:
    """What this supervisord was started with; None where it is none, or nobody can say."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    if "supervisor.supervisord" in words:
        its = words[words.index("supervisor.supervisord") :]
        if "-c" in its[:-1]:
            return Path(its[its.index("-c") + 1])
    return None
