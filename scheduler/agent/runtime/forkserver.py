"""A warm, single-threaded process that turns a spool folder into a supervisor by one fork.

Starting an interpreter takes tens of milliseconds, forking a small one takes one or two. It
holds no state: when it dies, its supervisors live on and the agent starts another; when the
agent dies, it ends. Looks at checkpoints are forked here too: a child can become the job's user,
a thread of the agent cannot.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from scheduler.agent.runtime import checkpoints, kernel, limits, processes, records
from scheduler.agent.runtime.checkpoints import CheckRequest, Finding
from scheduler.agent.runtime.children import drop_to
from scheduler.agent.runtime.records import LaunchRecord, StopRecord
from scheduler.agent.runtime.redaction import Redactor
from scheduler.agent.runtime.supervisor import Supervisor
from scheduler.states import EndReason
from scheduler.wire.codec import WireError, decode, encode, prepare

_MAX_MESSAGE = 32 * 1024
_OOM_SCORE_ADJUST = -500
_LOOK_AT_MOST_S = 3600
_LOOK_NICE = 10
_PATIENCE_S = 0.2
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from scheduler.agent.runtime.forkserver import serve; serve(int(sys.argv[2]))"
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
        root = str(Path(__file__).resolve().parents[3])
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
            said, give_up_at = b"", time.monotonic() + _LOOK_AT_MOST_S
            while not is_unwanted() and time.monotonic() < give_up_at:
                if select.select([answer], [], [], _PATIENCE_S)[0]:
                    piece = answer.read(_MAX_MESSAGE)
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


def serve(channel_fd: int) -> None:
    """Fork a supervisor, or a look at a checkpoint, for every message until the agent is gone."""
    channel = socket.socket(fileno=channel_fd)
    # Supervisors are nobody's business here: the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Made by a child, each would take longer than all else that it computes.
    for kind in (*records.SUPERVISORS_RECORDS, CheckRequest, Finding):
        prepare(kind)
    _rehearse()
    # What is here stays for good: looking for garbage in it would only copy pages in children.
    gc.collect()
    gc.freeze()
    while True:
        message, files, _, _ = socket.recv_fds(channel, _MAX_MESSAGE, 1)
        if not message:
            return
        if os.fork() == 0:
            channel.close()
            if message.startswith(b"{"):
                _look(message, files)
            _supervise(Path(os.fsdecode(message)), files)
        for held in files:
            os.close(held)


def _rehearse() -> None:
    """Do once what every supervisor does first and what can be kept: what is asked of the system
    for good, compiled patterns, a record there and back. A child copies each page it changes.
    """
    processes.boot_id()
    processes.start_ticks(os.getpid())
    limits.host_trees()
    Redactor(())
    decode(StopRecord, encode(StopRecord(EndReason.COMPLETED, 0)))
    select.poll().poll(0)


def _look(message: bytes, files: list[int]) -> None:
    """Answer a CheckRequest and end; a file that cannot be read ends it by the alarm."""
    try:
        signal.alarm(_LOOK_AT_MOST_S)
        os.nice(_LOOK_NICE)
        request = decode(CheckRequest, message)
        drop_to(request.uid)
        os.write(files[0], encode(checkpoints.look(request)))
    finally:
        os._exit(0)


def _supervise(spool: Path, files: list[int]) -> None:
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Nobody's stream is kept open by who outlives them; the first leads nowhere already.
        os.dup2(1, 2)
        kernel.set_oom_score(_OOM_SCORE_ADJUST)
        launch = records.read_record(LaunchRecord, spool / records.LAUNCH)
        if launch is None:
            raise OSError(f"no launch record in {spool}")
        holder = socket.socket(fileno=files[0]) if files else None
        Supervisor(spool, launch, holder).supervise()
        code = 0
    except BaseException:
        _leave_trace(spool)
    finally:
        os._exit(code)


def _leave_trace(spool: Path) -> None:
    """Say in the spool what went wrong; most supervisors have nothing to say, and make no file."""
    with open(spool / records.ERRORS, "a", encoding="utf-8", errors="replace") as trace:
        traceback.print_exc(file=trace)
