"""The shell's terminal, for who comes back to it late."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.agent.sessions import terminal

# A program on the other screen that has printed more than is kept, and draws for a size it is told.
PROGRAM = r"""
import os, signal, sys, time
signal.signal(signal.SIGWINCH, lambda *_: print("rows", os.get_terminal_size().lines, flush=True))
print("\x1b[?1049;1h\x1b[?25l" + "\n".join(["x" * 99] * 3000) + "\ndrawn", flush=True)
while True:
    time.sleep(1)
"""


class Viewer:
    """Who looks on."""

    def __init__(self, place: Path) -> None:
        self.link = socket.socket(socket.AF_UNIX)
        self.link.settimeout(20)
        self.link.connect(str(place))
        self.seen = b""

    def say(self, kind: bytes, body: bytes) -> None:
        self.link.sendall(struct.pack(">cH", kind, len(body)) + body)

    def see(self, word: bytes) -> None:
        while word not in self.seen:
            came = self.link.recv(65536)
            assert came, self.seen[-400:]
            self.seen += came


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The socket of a terminal that runs."""
    command = [sys.executable, terminal.__file__, str(tmp_path), "shell"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 20
        while not (tmp_path / "shell").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield tmp_path / "shell"
        running.terminate()


def test_who_comes_back_gets_the_modes_and_a_screen_that_is_drawn_anew(place: Path) -> None:
    program = place.with_name("program.py")
    program.write_text(PROGRAM)
    first = Viewer(place)
    first.say(b"d", f"exec {sys.executable} program.py\r".encode())
    first.see(b"drawn")
    first.link.close()
    again = Viewer(place)
    again.say(b"r", struct.pack(">HH", 100, 30))
    again.see(b"rows 30")
    begun = again.seen[:200]
    assert b"\x1b[?1049h" in begun and b"\x1b[?1h" in begun and b"\x1b[?25l" in begun
    # Another size than it had, for long enough to be seen, and then the window's.
    assert again.seen.index(b"rows 23") < again.seen.index(b"rows 30")


@pytest.mark.parametrize(
    ("printed", "modes"),
    [
        (b"\x1b[?1047h\x1b[?25l\x1b[?12h", {b"1049": b"h", b"25": b"l"}),
        (b"\x1b[?1;2004h text \x1b[?1l", {b"1": b"l", b"2004": b"h", b"7": b"l"}),
        (b"\x1b[?1hx\x1bc", {}),
    ],
)
def test_modes_are_those_said_last(printed: bytes, modes: dict[bytes, bytes]) -> None:
    before = {b"7": b"l"} if b"7" in modes else {}
    assert terminal._switched(before, printed) == modes
