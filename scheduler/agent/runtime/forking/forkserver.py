"""The agent's end of the warm process that makes supervisors by one fork each.

Starting an interpreter takes tens of milliseconds, forking a small one takes one or two. The
process (`warm_server`) holds no state: when it dies, its supervisors live on and the agent starts
another; when the agent dies, it ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from scheduler.agent.runtime.checkpoints import CheckRequest, Finding
from scheduler.agent.runtime.forking.warm_server import LOOK_AT_MOST_S, MAX_MESSAGE
from scheduler.wire.codec import WireError, decode, encode

_PATIENCE_S = 0.2
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from scheduler.agent.runtime.forking.warm_server import serve; serve(int(sys.argv[2]))"
)


class Forkserver:
    """The agent's end: `launch` asks for a supervisor, starting the server when needed."""

    def __init__(self) -> None:
        self._channel: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()

    def warm_up(self) -> None:
        """Start the server unless it lives."""
        if self._server is not None and self._server.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        root = str(Path(__file__).resolve().parents[4])
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, root, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        self._channel = ours

    def launch(self, spool: Path, port_holder: socket.socket | None) -> None:
        """Ask for a supervisor of `spool`; raises OSError when no server can be started."""
        self._ask(os.fsencode(spool), [port_holder.fileno()] if port_holder is not None else [])

    def look(self, request: CheckRequest, is_unwanted: Callable[[], bool]) -> Finding | None:
        """Look at a checkpoint as the job's user; None: unwanted meanwhile, or not to be read."""
        heard, told = os.pipe2(os.O_CLOEXEC)
        with open(heard, "rb", buffering=0) as answer:
            try:
                self._ask(encode(request), [told])
            finally:
                os.close(told)
            said, give_up_at = b"", time.monotonic() + LOOK_AT_MOST_S
            while not is_unwanted() and time.monotonic() < give_up_at:
                if select.select([answer], [], [], _PATIENCE_S)[0]:
                    piece = answer.read(MAX_MESSAGE)
                    if not piece:
                        break
                    said += piece
        try:
            return decode(Finding, said)
        except WireError:
            return None

    def _ask(self, message: bytes, files: list[int]) -> None:
        with self._lock:
            for _ in range(2):
                self.warm_up()
                assert self._channel is not None
                try:
                    socket.send_fds(self._channel, [message], files)
                    return
                except (BrokenPipeError, ConnectionError):
                    self.close()
        raise OSError("the process that starts supervisors does not stay up")

    def close(self) -> None:
        """Let the server end; supervisors are not touched."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._server is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(timeout=2)
            self._server = None
