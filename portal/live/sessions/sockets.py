"""WebSockets of sessions: keys and screen of a shell, and what a program's own pages open."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from typing import Any

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from portal.live.sessions.access import (
    Caller,
    caller_of,
    doorkeeper,
    header,
    is_own_page,
    is_right_host,
    job_of_path,
)
from portal.live.sessions.headers import as_asked, inward
from portal.live.sessions.tunnels import tunnels
from scheduler.services.sessions import Entry
from scheduler.wire.sessions import path_of
from scheduler.wire.streams import Stream, StreamBroken

MAX_MESSAGE = 16 * 1024 * 1024
MAX_KEYS = 16 * 1024
# Of a program's bytes so many are taken apart at once: frames may be two bytes long.
_BITE = 2 * 1024
_BEGUN_WITHIN_S = 30.0
FORBIDDEN = 4403
BAD_FRAME = 4400
GONE = 1013
_KEYS = struct.Struct(">cH")
_SIZE = struct.Struct(">HH")


class _Bad(Exception):
    """A message that no page of ours sends."""


async def session_socket(scope: Any, receive: Any, send: Any) -> None:
    """One WebSocket below `/s/`."""
    if (await receive())["type"] != "websocket.connect":
        return
    job_id, caller = job_of_path(scope["path"]), caller_of(scope)
    allowed = job_id is not None and is_right_host(scope) and is_own_page(scope)
    entry = await doorkeeper.entry(caller, job_id or 0) if allowed else None
    is_shell = entry is not None and entry.app == "shell"
    if entry is None or (is_shell and scope["path"] != f"{path_of(entry.job_id)}terminal"):
        await send({"type": "websocket.close", "code": FORBIDDEN})
        return
    try:
        stream = await tunnels.open(entry.node_id, entry.fence)
    except StreamBroken:
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": GONE})
        return
    work = _Shell(stream, send) if is_shell else _Program(stream, send, as_asked(scope, entry))
    await _carry(work, receive, send, entry, caller)


async def _carry(
    work: _Shell | _Program, receive: Any, send: Any, entry: Entry, caller: Caller
) -> None:
    """Both ways until either side ends, the stream breaks or the right is gone."""
    codes: list[int] = []

    async def revoke() -> None:
        codes.append(FORBIDDEN)
        await work.stream.reset("the right to be here is gone")

    async def inward_way() -> None:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                return
            await doorkeeper.touch(caller, entry.job_id)
            await work.take(event.get("bytes"), event.get("text"))

    async def outward_way() -> None:
        async with asyncio.timeout(_BEGUN_WITHIN_S):
            await work.begin()
        while (has_said := await work.pass_on()) is not None:
            if has_said:
                await doorkeeper.touch(None, entry.job_id)

    watch = asyncio.ensure_future(doorkeeper.watch(caller, entry, revoke))
    # At once: a browser may leave before the program has answered. Nothing comes from it before.
    ways = {asyncio.ensure_future(inward_way()), asyncio.ensure_future(outward_way())}
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
        codes.append(1000)
    except _Bad:
        codes.append(BAD_FRAME)
    except (StreamBroken, WebSocketException, TimeoutError):
        codes.append(GONE)
    finally:
        for task in (watch, *ways):
            task.cancel()
        await work.stream.reset("over")
        with contextlib.suppress(Exception):
            await send({"type": "websocket.close", "code": codes[0] if codes else GONE})


class _Shell:
    """Keys as binary messages, the window's size as text; back comes what the shell prints."""

    def __init__(self, stream: Stream, send: Any) -> None:
        self.stream = stream
        self.send = send

    async def begin(self) -> None:
        await self.send({"type": "websocket.accept"})

    async def take(self, keys: bytes | None, text: str | None) -> None:
        if keys is not None:
            if len(keys) > MAX_KEYS:
                raise _Bad
            await self.stream.write(_KEYS.pack(b"d", len(keys)) + keys)
            return
        try:
            columns, rows = json.loads(text or "")
            size = _SIZE.pack(columns, rows)
        except (ValueError, TypeError, struct.error, RecursionError):
            raise _Bad from None
        await self.stream.write(_KEYS.pack(b"r", len(size)) + size)

    async def pass_on(self) -> bool | None:
        """Whether something was shown; None at the end."""
        piece = await self.stream.read()
        if piece:
            await self.send({"type": "websocket.send", "bytes": piece})
        return True if piece else None


class _Program:
    """A WebSocket of the program's own: its handshake first, then message by message."""

    def __init__(self, stream: Stream, send: Any, scope: Any) -> None:
        self.stream = stream
        self.send = send
        self.scope = scope
        self._message = bytearray()
        self._is_text = False

    def _linked(self) -> ClientProtocol:
        scope = self.scope
        query = scope["query_string"].decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        wanted = [Subprotocol(one) for one in scope.get("subprotocols", ())]
        address = parse_uri(f"ws://{header(scope, b'host')}{target}")
        return ClientProtocol(address, subprotocols=wanted or None, max_size=MAX_MESSAGE)

    async def begin(self) -> None:
        self.link = self._linked()
        request = self.link.connect()
        for name, value in inward(self.scope["headers"]):
            if name != b"host":
                request.headers[name.decode("latin-1")] = value.decode("latin-1")
        self.link.send_request(request)
        await self._flush()
        while not (events := self.link.events_received()):
            await self._hear()
        if not isinstance(events[0], Response) or self.link.handshake_exc is not None:
            raise StreamBroken("the program opens no WebSocket there")
        accept = {"type": "websocket.accept", "subprotocol": self.link.subprotocol}
        await self.send(accept)
        for frame in events[1:]:
            await self._pass(frame)
        await self._flush()

    async def take(self, data: bytes | None, text: str | None) -> None:
        if data is not None:
            self.link.send_binary(data)
        else:
            self.link.send_text((text or "").encode("utf-8", "surrogatepass"))
        await self._flush()

    async def pass_on(self) -> bool | None:
        """Whether part of a message came, and not only pings, which nobody sees; None at the
        end."""
        piece = await self.stream.read()
        has_said = False
        for at in range(0, len(piece), _BITE):
            self.link.receive_data(piece[at : at + _BITE])
            for frame in self.link.events_received():
                has_said |= await self._pass(frame)
            await self._flush()  # pongs
            await asyncio.sleep(0)  # a stream that has more waits for nothing
        return has_said if piece else None

    async def _pass(self, frame: Any) -> bool:
        if frame.opcode is Opcode.CLOSE:
            raise StreamBroken("closed by the program")
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return False
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._message += frame.data
        if len(self._message) > MAX_MESSAGE:
            raise _Bad
        if frame.fin:
            whole, self._message = bytes(self._message), bytearray()
            text = whole.decode("utf-8", "replace") if self._is_text else None
            content = {"bytes": whole} if text is None else {"text": text}
            await self.send({"type": "websocket.send", **content})
        return True

    async def _hear(self) -> None:
        """More of the answer to the handshake."""
        if piece := await self.stream.read():
            self.link.receive_data(piece)
        else:
            self.link.receive_eof()
        if self.link.handshake_exc is not None:
            raise StreamBroken(str(self.link.handshake_exc))

    async def _flush(self) -> None:
        for piece in self.link.data_to_send():
            if piece:
                await self.stream.write(piece)
