"""Interactive sessions between server and node: what to start, and which program a stream is for.

A session is a job whose program people talk to. The program listens on a Unix socket in the
attempt's own folder; the node's agent opens a tunnel outward (`wire/tunnel.py`) and connects each
stream of it to that socket. The node listens nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TUNNEL_PATH: Final = "/api/agent/v1/tunnel"
SUBPROTOCOL: Final = "trainyard.tunnel.1"
# Below the attempt's folder; Unix sockets have names of at most 107 bytes.
SOCKET_NAME: Final = "app.sock"
# Apps that are told no address: what lies below it is asked of them as if it were the root.
SERVED_FROM_ROOT: Final = frozenset({"vscode"})


@dataclass(frozen=True, slots=True)
class SessionLaunch:
    """`app`: as in the spec; `path`: below which address people reach it."""

    app: str
    path: str


@dataclass(frozen=True, slots=True)
class StreamOrder:
    """For whom a stream is: the attempt with this fence."""

    fence: int


def path_of(job_id: int) -> str:
    """Below which address the program of a session is reached."""
    return f"/s/{job_id}/"
