"""All output of an attempt's processes, through one pipe into one append-only file."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from scheduler.agent.runtime.redaction import Redactor

_MIB = 1024 * 1024
_CHUNK = 256 * 1024
_CHUNKS_A_TURN = 8


class LogCapture:
    """The log of an attempt. Over `cap_mib` output is still taken, but no longer kept."""

    def __init__(self, path: Path, cap_mib: int, secrets: Iterable[str] = ()) -> None:
        self.redactor = Redactor(secrets)
        self.cap = cap_mib * _MIB
        self.cap_mib = cap_mib
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self.file).st_size
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

    def settle(self) -> int:
        """Take the rest and make the file durable; returns its final size in bytes."""
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
        with contextlib.suppress(OSError):
            os.fsync(self.file)
        return self.size

    def _keep(self, chunk: bytes) -> None:
        if self.lost:
            return
        room = self.cap - self.size
        problem = ""
        if len(chunk) > room:
            chunk, problem = chunk[:room], f"it reached {self.cap_mib} MiB"
        try:
            while chunk:
                written = os.write(self.file, chunk)
                self.size += written
                chunk = chunk[written:]
        except OSError as error:
            problem = error.strerror or str(error)
        if problem:
            self._say_lost(problem)

    def _say_lost(self, problem: str) -> None:
        self.lost = problem
        line = f"\n[trainyard] The log ends here: {problem}. The program goes on.\n".encode()
        with contextlib.suppress(OSError):
            self.size += os.write(self.file, line)
