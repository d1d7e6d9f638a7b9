"""The program of a shell session: one shell on a terminal of its own, shown to all who come.

It runs as the job, with whatever Python the node has, from a copy of this file alone: nothing but
the standard library, and nothing newer than 3.8. Usage: terminal.py FOLDER NAME, where it makes
the Unix socket NAME.

Who connects gets the modes that were set long ago, what the shell printed lately, less what asks
the terminal for an answer, then what it prints, as it is. What they send are messages of a kind
(1 byte), a length (2 bytes, big-endian) and so many bytes: `d` keys, `r` the size as columns and
rows (2 bytes each). The shell stays when people leave; when it ends, so does the session. A viewer
who does not read holds the shell back for a while, then is let go.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import pwd
import re
import selectors
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Iterator
from types import FrameType

_HEAD = struct.Struct(">cH")
_SIZE = struct.Struct(">HH")
_KEPT = 256 * 1024
_FULL = 128 * 1024
_PATIENCE_S = 20.0
_MAX_VIEWERS = 16
_LONGEST_SIDE = 1000
_READ = 32 * 1024
# What asks the terminal for an answer, which would be typed into whatever runs by now.
_QUESTIONS = re.compile(rb"\x1b\[[0-9;?>=]*[cn]")
# Modes that last until they are set anew: keys of the cursor, wrapping, whether the cursor shows,
# pasting, and the other screen, by three names. The first takes all of them back.
_SWITCHES = re.compile(rb"\x1bc|\x1b\[\?([0-9;]+)([hl])")
_LASTING = (b"1", b"7", b"25", b"2004")
_OTHER, _ITS_NAMES = b"1049", (b"47", b"1047", b"1049")
_LONGEST_SWITCH = 32
_SHRUNK_S = 0.3


class Viewer:
    """One connection."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.keys = b""
        self.out = bytearray()
        self.full_since: float | None = None

    def messages(self) -> Iterator[tuple[bytes, bytes]]:
        """What has come whole so far."""
        while len(self.keys) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self.keys)
            if kind not in (b"d", b"r"):
                raise ValueError("no such message")
            if len(self.keys) < _HEAD.size + length:
                return
            body = self.keys[_HEAD.size : _HEAD.size + length]
            self.keys = self.keys[_HEAD.size + length :]
            yield kind, body


class Terminal:
    """The shell, its terminal, and who looks on."""

    def __init__(self, ear: socket.socket) -> None:
        self.ear = ear
        self.viewers: dict[socket.socket, Viewer] = {}
        self.kept = bytearray()
        self.modes: dict[bytes, bytes] = {}  # where `kept` begins
        self.typed = bytearray()
        self.size = (80, 24)
        self.shrunk_until: float | None = None
        self.selector = selectors.DefaultSelector()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            _become_shell()
        os.set_blocking(self.master, False)
        self.ear.setblocking(False)
        self.resize(*self.size)
        self.selector.register(self.ear, selectors.EVENT_READ)

    def serve(self) -> int:
        """Until the shell has ended; returns the exit code to end with."""
        while True:
            self._choose()
            wait_s = 1.0 if self.shrunk_until is None else _SHRUNK_S
            for key, events in self.selector.select(wait_s):
                if key.fileobj is self.ear:
                    self._admit()
                elif key.fd == self.master:
                    if events & selectors.EVENT_READ and not self._show():
                        return self._end()
                    if events & selectors.EVENT_WRITE:
                        self._type()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self.viewers:
                    self._exchange(self.viewers[key.fileobj], events)
            self._let_go()

    def resize(self, columns: int, rows: int) -> None:
        """Tell the shell how large the window is."""
        columns, rows = (max(2, min(_LONGEST_SIDE, side)) for side in (columns, rows))
        self.size = (columns, rows)
        if self.shrunk_until is None:
            self._set_size(rows)

    def _set_size(self, rows: int) -> None:
        size = struct.pack("HHHH", rows, self.size[0], 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def _shrink(self) -> None:
        """For a moment: programs draw anew for another size, and not for the one they know."""
        self.shrunk_until = time.monotonic() + _SHRUNK_S
        self._set_size(self.size[1] - 1)

    def _choose(self) -> None:
        """Listen to what can be dealt with: a full viewer holds back what fills it."""
        is_full = any(len(viewer.out) > _FULL for viewer in self.viewers.values())
        wanted = (0 if is_full else selectors.EVENT_READ) | (
            selectors.EVENT_WRITE if self.typed else 0
        )
        self._watch(self.master, wanted)
        for viewer in self.viewers.values():
            reads = 0 if len(self.typed) > _FULL else selectors.EVENT_READ
            self._watch(viewer.link, reads | (selectors.EVENT_WRITE if viewer.out else 0))

    def _watch(self, what: int | socket.socket, events: int) -> None:
        known = self.selector.get_map().get(what)
        if known is None and events:
            self.selector.register(what, events)
        elif known is not None and not events:
            self.selector.unregister(what)
        elif known is not None and known.events != events:
            self.selector.modify(what, events)

    def _admit(self) -> None:
        link, _ = self.ear.accept()
        if len(self.viewers) >= _MAX_VIEWERS:
            link.close()
            return
        link.setblocking(False)
        viewer = self.viewers[link] = Viewer(link)
        for mode, state in self.modes.items():
            viewer.out += b"\x1b[?" + mode + state
        viewer.out += _QUESTIONS.sub(b"", self.kept)
        if self.modes.get(_OTHER) == b"h" and _OTHER not in _switched({}, bytes(self.kept)):
            self._shrink()  # of what was drawn there a part is cut off

    def _show(self) -> bool:
        """Pass on what the shell printed; False once it is gone."""
        try:
            piece = os.read(self.master, _READ)
        except BlockingIOError:
            return True
        except OSError:
            return False  # the last one who had the terminal open is gone
        if not piece:
            return False
        self.kept += piece
        if len(self.kept) > _KEPT:
            self._forget()
        for viewer in self.viewers.values():
            viewer.out += piece
        return True

    def _forget(self) -> None:
        cut = len(self.kept) - _KEPT // 2
        # Not within a sequence, of which the rest would be shown.
        begun = self.kept.rfind(b"\x1b", cut - _LONGEST_SWITCH, cut)
        cut = begun if begun >= 0 else cut
        self.modes = _switched(self.modes, bytes(self.kept[:cut]))
        del self.kept[:cut]

    def _type(self) -> None:
        with contextlib.suppress(BlockingIOError):
            del self.typed[: os.write(self.master, self.typed[:4096])]

    def _exchange(self, viewer: Viewer, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                came = viewer.link.recv(_READ)
                if not came:
                    raise ConnectionError
                viewer.keys += came
                for kind, body in viewer.messages():
                    if kind == b"d":
                        self.typed += body
                    else:
                        self.resize(*_SIZE.unpack(body))
            if events & selectors.EVENT_WRITE and viewer.out:
                del viewer.out[: viewer.link.send(viewer.out[:_READ])]
        except BlockingIOError:
            pass
        except (OSError, ValueError, struct.error):
            self._drop(viewer)

    def _let_go(self) -> None:
        now = time.monotonic()
        if self.shrunk_until is not None and now >= self.shrunk_until:
            self.shrunk_until = None
            self._set_size(self.size[1])
        for viewer in list(self.viewers.values()):
            if len(viewer.out) <= _FULL:
                viewer.full_since = None
            else:
                viewer.full_since = viewer.full_since or now
                if now - viewer.full_since > _PATIENCE_S:
                    self._drop(viewer)

    def _drop(self, viewer: Viewer) -> None:
        with contextlib.suppress(KeyError):
            self.selector.unregister(viewer.link)
        self.viewers.pop(viewer.link, None)
        viewer.link.close()

    def _end(self) -> int:
        for viewer in list(self.viewers.values()):
            with contextlib.suppress(OSError):
                viewer.link.settimeout(1.0)
                viewer.link.sendall(viewer.out)
            self._drop(viewer)
        _, status = os.waitpid(self.pid, 0)
        # A shell's code is that of its last command: how people leave says nothing went wrong.
        return 0 if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _switched(modes: dict[bytes, bytes], printed: bytes) -> dict[bytes, bytes]:
    """The modes after something was printed: on (`h`) or off (`l`) by number."""
    known = dict(modes)
    for found in _SWITCHES.finditer(printed):
        if found[1] is None:
            known.clear()
            continue
        for mode in found[1].split(b";"):
            if mode in _LASTING or mode in _ITS_NAMES:
                known[_OTHER if mode in _ITS_NAMES else mode] = found[2]
    return known


def _become_shell() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.environ["TERM"] = "xterm-256color"
    shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
    os.environ["SHELL"] = shell
    os.execv(shell, [shell, *_how(shell), "-i"])  # noqa: S606 - the shell is what was asked for


def _how(shell: str) -> list[str]:
    """Options for one whose number has no name on this node: a prompt that does not miss it."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        is_bash = shell.endswith("bash")
        os.environ["PS1"] = r"\h:\w\$ " if is_bash else "$ "
        return ["--norc"] if is_bash else []
    return []


def main(folder: str, name: str) -> int:
    """Serve one shell; returns an exit code, 0 unless the shell was killed."""
    # A socket's name is short; the folder's may not be.
    came_from = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    ear = socket.socket(socket.AF_UNIX)
    os.umask(0o077)
    ear.bind(name)
    ear.listen(8)
    os.fchdir(came_from)
    os.umask(0o022)
    terminal = Terminal(ear)

    def stop(number: int, frame: FrameType | None) -> None:
        os.kill(terminal.pid, signal.SIGHUP)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    print("The shell is ready.", flush=True)
    code = terminal.serve()
    print("The shell has ended.", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
