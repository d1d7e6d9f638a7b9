"""A warm, single-threaded process that turns a spool folder into a supervisor by one fork.

A supervisor that has done with its attempt, and left nothing running, asks for another one: its
pages are its own by then, and a fork with the copying that follows costs three times what guarding
a short program does. It guards one attempt at a time, so that it is named by its pid as before.

Looks at checkpoints are forked here too: a child can become the job's user, a thread of the agent
cannot. Nothing here may import `threading` or what imports it (`subprocess`, `concurrent`): what
that module does after each fork copies 150 pages of the child, a tenth of what an attempt costs.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import time
from pathlib import Path

from scheduler.agent.runtime import checkpoints, kernel, limits, processes, records
from scheduler.agent.runtime.checkpoints import CheckRequest, Finding
from scheduler.agent.runtime.children import drop_to
from scheduler.agent.runtime.records import LaunchRecord, StopRecord
from scheduler.agent.runtime.redaction import Redactor
from scheduler.agent.runtime.supervisor import Supervisor
from scheduler.states import EndReason
from scheduler.wire.codec import decode, encode, prepare

MAX_MESSAGE = 32 * 1024
LOOK_AT_MOST_S = 3600
_OOM_SCORE_ADJUST = -500
# A guard computes next to nothing, and has to keep deadlines beside programs that compute all day.
_AHEAD = 10
_LOOK_NICE = 10
_IDLE_S = 20.0
_MOST_IDLE = 16
# A process that is used for ever would keep what little each use leaves behind.
_MOST_ATTEMPTS = 500
_FREE = b"free"


class Guards:
    """The supervisors that were forked here, by a socket each, and those that are free.

    The last one to become free is asked first; who is free for long is let go. An attempt given
    to one that was just dying is handed to a new one.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines: dict[int, socket.socket] = {}
        self._free: dict[int, float] = {}
        self._given: dict[int, bytes] = {}
        self._unclaimed: list[bytes] = []
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    def wait(self) -> bool:
        """Hear who is free and who is gone until the agent speaks; then True."""
        patience_ms = _IDLE_S * 1000 / 2 if self._free else None
        spoken = [number for number, _ in self._poll.poll(patience_ms)]
        for number in spoken:
            if number in self._lines:
                self._hear(number)
        for number in self._idlers():
            self._dismiss(number)
        return self._channel.fileno() in spoken

    def _hear(self, number: int) -> None:
        try:
            word = self._lines[number].recv(len(_FREE))
        except OSError:
            word = b""
        if word != _FREE:
            self._dismiss(number)
            return
        self._given.pop(number, None)
        self._free[number] = time.monotonic()

    def _idlers(self) -> list[int]:
        since = time.monotonic() - _IDLE_S
        longest_first = list(self._free)
        late = [number for number in longest_first if self._free[number] < since]
        return late or longest_first[: max(0, len(longest_first) - _MOST_IDLE)]

    def _dismiss(self, number: int) -> None:
        self._free.pop(number, None)
        given = self._given.pop(number, None)
        if given is not None and not Path(os.fsdecode(given), records.SUPERVISOR).exists():
            self._unclaimed.append(given)
        self._poll.unregister(number)
        self._lines.pop(number).close()

    def unclaimed(self) -> list[bytes]:
        """Attempts whose supervisor ended before it claimed them; told once."""
        told, self._unclaimed = self._unclaimed, []
        return told

    def ask_free_one(self, message: bytes, files: list[int]) -> bool:
        """Give the attempt to a supervisor that waits for one; False: there is none."""
        while self._free:
            number, _ = self._free.popitem()
            try:
                socket.send_fds(self._lines[number], [message], files)
            except OSError:
                self._dismiss(number)
            else:
                self._given[number] = message
                return True
        return False

    def fork(self) -> socket.socket | None:
        """A new supervisor. In it, its line to here; None in this process."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            ours.close()
            self.leave()
            return theirs
        theirs.close()
        self._lines[ours.fileno()] = ours
        self._poll.register(ours, select.POLLIN)
        return None

    def leave(self) -> None:
        """In a child: give up what is the server's. Held by another, no line would end with it."""
        self._channel.close()
        for line in self._lines.values():
            line.close()


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
    guards = Guards(channel)
    while True:
        has_agent_spoken = guards.wait()
        for message in guards.unclaimed():
            _fork_guard(guards, message, [])
        if not has_agent_spoken:
            continue
        message, files, _, _ = socket.recv_fds(channel, MAX_MESSAGE, 1)
        if not message:
            return
        if message.startswith(b"{"):
            if os.fork() == 0:
                guards.leave()
                _look(message, files)
        elif not guards.ask_free_one(message, files):
            _fork_guard(guards, message, files)
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


def _fork_guard(guards: Guards, message: bytes, files: list[int]) -> None:
    line = guards.fork()
    if line is not None:
        _supervise(message, files, line)


def _look(message: bytes, files: list[int]) -> None:
    """Answer a CheckRequest and end; a file that cannot be read ends it by the alarm."""
    try:
        signal.alarm(LOOK_AT_MOST_S)
        os.nice(_LOOK_NICE)
        request = decode(CheckRequest, message)
        # What it needs besides, while Python's own files may certainly be read. No supervisor does.
        import hashlib  # noqa: F401

        drop_to(request.uid)
        os.write(files[0], encode(checkpoints.look(request)))
    finally:
        os._exit(0)


def _supervise(message: bytes, files: list[int], line: socket.socket) -> None:
    """Guard one attempt after the other, as `line` names them; never returns."""
    code, spool = 1, Path(os.fsdecode(message))
    try:
        os.setsid()
        # Nobody's stream is kept open by who outlives them; the first leads nowhere already.
        os.dup2(1, 2)
        kernel.set_oom_score(_OOM_SCORE_ADJUST)
        kernel.go_first(_AHEAD)
        for _ in range(_MOST_ATTEMPTS):
            if not _guard(spool, files):
                break
            line.send(_FREE)
            message, files, _, _ = socket.recv_fds(line, MAX_MESSAGE, 1)
            if not message:
                break
            spool = Path(os.fsdecode(message))
        code = 0
    except BrokenPipeError:
        code = 0  # the server has gone meanwhile
    except BaseException:
        _leave_trace(spool)
    finally:
        os._exit(code)


def _guard(spool: Path, files: list[int]) -> bool:
    """One attempt; whether this process may be used for another."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    launch = records.read_record(LaunchRecord, spool / records.LAUNCH)
    if launch is None:
        raise OSError(f"no launch record in {spool}")
    holder = socket.socket(fileno=files[0]) if files else None
    supervisor = Supervisor(spool, launch, holder)
    supervisor.supervise()
    return supervisor.is_reusable()


def _leave_trace(spool: Path) -> None:
    """Say in the spool what went wrong; most supervisors have nothing to say, and make no file."""
    import traceback  # seldom needed, and it brings the tokenizer along

    with open(spool / records.ERRORS, "a", encoding="utf-8", errors="replace") as trace:
        traceback.print_exc(file=trace)
