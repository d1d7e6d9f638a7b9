"""All output of an attempt's processes, through one pipe into one append-only file."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from scheduler.agent.runtime.redaction import Redactor

_MIB = 1024 * 1024
_CHUNK = 256 * 1024
_CHUNKS_A_TURN = 8
_MAX_TAIL = 4 * _MIB
# Whenever a log has grown by so much, it is seen whether all logs of the node take no more than
# their share of its disk.
_STEP = 16 * _MIB
_SHARE = 0.1
# Room for the two lines that tell of the gap.
_NOTES = 512
# What those lines say, for who reads logs: where the head ends, and that something is missing.
CUT = "[trainyard] The log is cut here: "
LEFT_OUT = " bytes of output are left out here."


class LogCapture:
    """The log of an attempt. Of one that outgrows `cap_mib` the head and the tail are kept.

    Output is always taken, so that no program waits for its log. The tail waits in memory for the
    end; between both the log says how much is left out. A full disk ends the head early, and what
    it refused is owed: `settle` writes it once there is room. So do the logs in `spool`, a folder
    for each attempt, where they take too much of its disk.
    """

    def __init__(
        self, path: Path, cap_mib: int, secrets: Iterable[str] = (), *, spool: Path | None = None
    ) -> None:
        self.redactor = Redactor(secrets)
        self.cap_mib = cap_mib
        self.tail_room = min(_MAX_TAIL, cap_mib * _MIB // 2)
        self.head_room = cap_mib * _MIB - self.tail_room - _NOTES
        self.tail: deque[bytes] = deque()
        self.tail_size = self.left_out = 0
        self.owed = b""
        self.path, self.file = path, -1
        self.spool, self.look_at = spool, _STEP
        self.size = path.stat().st_size if path.exists() else 0
        self.lost = ""
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.read_end, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, _MIB)

    def __enter__(self) -> LogCapture:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close_write_end()
        os.close(self.read_end)
        if self.file >= 0:
            os.close(self.file)

    def close_write_end(self) -> None:
        """Leave the pipe to the processes: once they are all gone, it ends."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def take(self) -> bool:
        """Move what is waiting into the file; False once every writer is gone."""
        for _ in range(_CHUNKS_A_TURN):
            try:
                chunk = os.read(self.read_end, _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._keep(self.redactor.feed(chunk))
        return True

    def settle(self) -> None:
        """Take the rest and make the file durable; `size` is final then.

        Raises OSError where the disk has no room. Nothing is lost by that: call again.
        """
        self.close_write_end()
        while True:
            try:
                chunk = os.read(self.read_end, _CHUNK)
            except BlockingIOError:
                break  # somebody unkillable still holds the pipe
            if not chunk:
                break
            self._keep(self.redactor.feed(chunk))
        self._keep(self.redactor.finish())
        self._owe_tail()
        self._pay()
        if self.file >= 0:  # of nothing there is nothing to lose
            with contextlib.suppress(OSError):
                os.fsync(self.file)

    def _keep(self, chunk: bytes) -> None:
        if self.lost:
            self._keep_last(chunk)
            return
        room = self.head_room - self.size
        problem = f"it reached {self.cap_mib} MiB" if len(chunk) > room else ""
        if self.spool and self.size + len(chunk) > self.look_at:
            self.look_at += _STEP
            if _take_too_much(self.spool, self.path.name):
                problem, room = "the logs on this node take a tenth of its disk", 0
        try:
            while room > 0 and chunk:
                written = self._write(chunk[:room])
                self.size, room = self.size + written, room - written
                chunk = chunk[written:]
        except OSError as error:
            problem = error.strerror or str(error)
        if problem:
            self._say_lost(problem)
            self._keep_last(chunk)

    def _write(self, piece: bytes) -> int:
        """Append; who says nothing leaves no file."""
        if self.file < 0:
            kind = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self.file = os.open(self.path, kind, 0o600)
        return os.write(self.file, piece)

    def _keep_last(self, chunk: bytes) -> None:
        """Put a piece behind the tail; what falls out at its begin is counted."""
        if not chunk:
            return
        self.tail.append(chunk)
        self.tail_size += len(chunk)
        while self.tail_size > self.tail_room:
            over = self.tail_size - self.tail_room
            first = self.tail.popleft()
            if len(first) > over:
                self.tail.appendleft(first[over:])
            gone = min(over, len(first))
            self.tail_size, self.left_out = self.tail_size - gone, self.left_out + gone

    def _owe_tail(self) -> None:
        """Add what was held back: a line that shows the gap, then the last whole lines."""
        last = b"".join(self.tail)
        self.tail.clear()
        self.tail_size = 0
        if self.left_out:
            begin = last.find(b"\n") + 1
            last, left_out = last[begin:], self.left_out + begin
            last = f"\n[trainyard] {left_out}{LEFT_OUT}\n".encode() + last
            self.left_out = 0
        self.owed += last

    def _pay(self) -> None:
        while self.owed:
            written = self._write(self.owed)
            self.size += written
            self.owed = self.owed[written:]

    def _say_lost(self, problem: str) -> None:
        self.lost = problem
        kept = self.tail_room // 1024
        self.owed = (
            f"\n{CUT}{problem}. The program goes on; of its further "
            f"output the last {kept} KiB follow at the end.\n"
        ).encode()
        with contextlib.suppress(OSError):
            self._pay()


def _take_too_much(spool: Path, name: str) -> bool:
    """Whether the files of that name, one an attempt, take more than their share of the disk."""
    taken = 0
    try:
        for folder in os.scandir(spool):
            with contextlib.suppress(OSError):  # it has none
                taken += os.stat(f"{folder.path}/{name}").st_size
        disk = os.statvfs(spool)
    except OSError:
        return False
    return taken > disk.f_blocks * disk.f_frsize * _SHARE
