"""Which of the ways in a path takes: sessions and tunnels here, all else to the portal."""

from __future__ import annotations

from typing import Any

from portal.live.sessions.access import is_sessions_alone
from portal.live.sessions.gate import PREFIX, gate
from portal.live.sessions.sockets import session_socket
from portal.live.sessions.tunnels import tunnel_socket
from scheduler.wire.sessions import TUNNEL_PATH

# Styles and scripts of the shell's page.
_FILES = "/static/"


class SessionDoors:
    """Takes what is for sessions; the others go on to `portal`."""

    def __init__(self, portal: Any) -> None:
        self._portal = portal

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request or one socket."""
        is_socket = scope["type"] == "websocket"
        if scope["path"].startswith(PREFIX):
            await (session_socket if is_socket else gate)(scope, receive, send)
        elif is_socket and scope["path"] == TUNNEL_PATH:
            await tunnel_socket(scope, receive, send)
        elif is_sessions_alone(scope) and (is_socket or not scope["path"].startswith(_FILES)):
            await (session_socket if is_socket else gate)(scope, receive, send)
        else:
            await self._portal(scope, receive, send)
