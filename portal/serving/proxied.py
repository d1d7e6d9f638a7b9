"""Who calls through a Unix socket: the proxy before it says so.

uvicorn believes a proxy's `X-Forwarded-For` and `-Proto` if it trusts the proxy's address. A Unix
socket has none, so that everybody behind it would be nobody, and every WebSocket a plain one. Only
programs of this machine, of the socket's group, reach it (`deploy/systemd`): they are trusted.
"""

from __future__ import annotations

from typing import Any, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_HERE = "127.0.0.1"


class Proxied:
    """Around an application."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._told = ProxyHeadersMiddleware(application, trusted_hosts=[_HERE])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request or socket."""
        if scope["type"] == "lifespan" or scope.get("client") is not None:
            await self._application(scope, receive, send)
            return
        told = cast(Any, {**scope, "client": (_HERE, 0)})
        await self._told(told, receive, send)
