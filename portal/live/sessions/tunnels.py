"""The portal's end of the tunnels: which node can be reached through this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings

from scheduler.models import Node
from scheduler.services.nodes import authenticate_node
from scheduler.wire.codec import encode
from scheduler.wire.sessions import SUBPROTOCOL, StreamOrder
from scheduler.wire.streams import Mux, Stream, StreamBroken
from scheduler.wire.tunnel import MAX_FRAME, FrameError

logger = logging.getLogger(__name__)

RECHECK_S = 5.0
REFUSED = 4401
BAD_FRAME = 4400
REPLACED = 4409
_MAX_TOKEN = 256


class Tunnels:
    """One mux for each node that has a tunnel to this process."""

    def __init__(self) -> None:
        self._muxes: dict[int, Mux] = {}

    def put(self, node_id: int, mux: Mux) -> None:
        """A node's newest tunnel replaces the one before, which the node gave up."""
        before = self._muxes.get(node_id)
        self._muxes[node_id] = mux
        if before is not None:
            before.close("the node has opened another tunnel")

    def drop(self, node_id: int, mux: Mux) -> None:
        """A tunnel is gone."""
        if self._muxes.get(node_id) is mux:
            del self._muxes[node_id]

    async def open(self, node_id: int, fence: int) -> Stream:
        """A stream to the session with this fence. Raises StreamBroken."""
        mux = self._muxes.get(node_id)
        if mux is None:
            raise StreamBroken("no_tunnel")
        return await mux.open(encode(StreamOrder(fence)))


tunnels = Tunnels()


async def tunnel_socket(scope: Any, receive: Any, send: Any) -> None:
    """The node's WebSocket, for as long as its token is good."""
    if (await receive())["type"] != "websocket.connect":
        return
    token = _token_of(scope)
    node = await database_sync_to_async(_node_of)(token)
    # Accepted first: who speaks no WebSocket is told nothing, who does is told the code.
    known = SUBPROTOCOL in scope.get("subprotocols", ())
    await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if known else None})
    if node is None or not known:
        await send({"type": "websocket.close", "code": REFUSED})
        return

    async def carry(frame: bytes) -> None:
        await send({"type": "websocket.send", "bytes": frame})

    mux = Mux(carry)
    tunnels.put(node.pk, mux)
    watch = asyncio.ensure_future(_watch(token, mux))
    code = 1000
    try:
        code = await _take(receive, mux)
    finally:
        watch.cancel()
        tunnels.drop(node.pk, mux)
        mux.close("the tunnel to the node is closed")
        with contextlib.suppress(Exception):
            await send({"type": "websocket.close", "code": code})


async def _take(receive: Any, mux: Mux) -> int:
    """Feed what comes until it ends or the mux is closed; the code to close with."""
    closed = asyncio.ensure_future(mux.wait_closed())
    coming = asyncio.ensure_future(receive())
    try:
        while True:
            await asyncio.wait((coming, closed), return_when=asyncio.FIRST_COMPLETED)
            if closed.done():
                return REPLACED
            event = coming.result()
            if event["type"] == "websocket.disconnect":
                return 1000
            frame = event.get("bytes")
            if frame is None or len(frame) > MAX_FRAME:
                raise FrameError("not a frame")
            mux.feed(frame)
            coming = asyncio.ensure_future(receive())
    except FrameError as problem:
        logger.warning("a node's tunnel is closed: %s", problem)
        return BAD_FRAME
    finally:
        closed.cancel()
        coming.cancel()


async def _watch(token: str, mux: Mux) -> None:
    while True:
        await asyncio.sleep(RECHECK_S)
        with contextlib.suppress(Exception):  # a database that is away revokes nothing
            if await database_sync_to_async(_node_of)(token) is None:
                mux.close("the node is not known any more")
                return


def _token_of(scope: Any) -> str:
    if settings.SECURE_SSL_REDIRECT and scope.get("scheme") not in ("wss", "https"):
        return ""
    header: bytes = dict(scope["headers"]).get(b"authorization", b"")
    word, _, secret = header.decode("latin-1").partition(" ")
    return secret.strip() if word.lower() == "bearer" and len(secret) <= _MAX_TOKEN else ""


def _node_of(token: str) -> Node | None:
    return authenticate_node(token) if token else None
