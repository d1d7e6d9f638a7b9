"""The live socket opens for the portal's own pages alone."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings

from portal.live.sessions.access import header, is_shared, own_origin


class OwnPages:
    """Refuses whoever comes from another origin, or tells none.

    Names that are allowed as a host are not enough: that of the sessions is one, browsers send it
    the portal's cookie as one of the same site, and its pages come from jobs.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One socket."""
        taker = self._inner if _is_ours(scope) else WebsocketDenier()
        await taker(scope, receive, send)


def _is_ours(scope: Any) -> bool:
    origin = _host(header(scope, b"origin"))
    public = _host(str(settings.PUBLIC_URL))
    if not is_shared() and origin == _host(own_origin()) != public:
        return False
    return bool(origin) and origin in (header(scope, b"host").lower(), public)


def _host(origin: str) -> str:
    return urlsplit(origin).netloc.lower()
