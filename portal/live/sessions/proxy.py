"""One HTTP request through the tunnel: HTTP/1.1 by h11 over a stream to the program."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import h11

from portal.live.sessions.access import Caller, doorkeeper, header
from portal.live.sessions.headers import as_asked, inward, outward
from portal.live.sessions.tunnels import tunnels
from scheduler.services.sessions import Entry
from scheduler.wire.streams import Stream, StreamBroken

_MAX_HEAD = 64 * 1024
_QUIET = frozenset({"GET", "HEAD", "OPTIONS"})


class Unreachable(Exception):
    """There is no answer from the program, and none has begun."""


async def pass_request(scope: Any, receive: Any, send: Any, entry: Entry, caller: Caller) -> None:
    """Carry one request and its answer. Raises Unreachable before an answer has begun."""
    # A page left open asks how things are for ever; that is nobody doing something.
    if scope["method"] not in _QUIET or header(scope, b"sec-fetch-mode") == "navigate":
        await doorkeeper.touch(caller, entry.job_id)
    try:
        stream = await tunnels.open(entry.node_id, entry.fence)
    except StreamBroken as broken:
        raise Unreachable(str(broken)) from None

    async def revoke() -> None:
        await stream.reset("the right to be here is gone")

    link = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
    watch = asyncio.ensure_future(doorkeeper.watch(caller, entry, revoke))
    upload: asyncio.Task[None] | None = None
    try:
        upload = asyncio.ensure_future(_upload(as_asked(scope, entry), receive, link, stream))
        await _answer(send, link, stream, entry.job_id)
    finally:
        watch.cancel()
        if upload is not None:
            upload.cancel()
        await stream.reset("over")


async def _upload(scope: Any, receive: Any, link: h11.Connection, stream: Stream) -> None:
    """The request, head and body; later the word that the browser has gone."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    headers = inward(scope["headers"])
    names = {name for name, _ in headers}
    has_body = b"content-length" in names
    if not has_body and any(n == b"transfer-encoding" for n, _ in scope["headers"]):
        headers.append((b"transfer-encoding", b"chunked"))
        has_body = True
    headers.append((b"connection", b"close"))
    with contextlib.suppress(StreamBroken):
        try:
            head = h11.Request(method=scope["method"], target=target, headers=headers)
            await stream.write(link.send(head) or b"")
            while True:
                event = await receive()
                if event["type"] != "http.request":
                    await stream.reset("the browser has gone")
                    return
                body = event.get("body", b"")
                if body and has_body:
                    await stream.write(link.send(h11.Data(data=body)) or b"")
                if not event.get("more_body"):
                    break
            await stream.write(link.send(h11.EndOfMessage()) or b"")
        except h11.LocalProtocolError:
            await stream.reset("the request cannot be passed on")
            return
        while (await receive())["type"] == "http.request":
            pass
        await stream.reset("the browser has gone")


async def _answer(send: Any, link: h11.Connection, stream: Stream, job_id: int) -> None:
    began = False
    try:
        while True:
            event = link.next_event()
            if event is h11.NEED_DATA:
                link.receive_data(await stream.read())
            elif isinstance(event, h11.Response):
                began = True
                headers = outward(list(event.headers), job_id)
                status = event.status_code
                await send({"type": "http.response.start", "status": status, "headers": headers})
            elif isinstance(event, h11.Data):
                piece = {"type": "http.response.body", "body": bytes(event.data)}
                await send({**piece, "more_body": True})
            elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)) or event is h11.PAUSED:
                if not began:
                    raise Unreachable("the program gave no answer")
                await send({"type": "http.response.body", "body": b""})
                return
    except (StreamBroken, h11.RemoteProtocolError) as broken:
        if not began:
            raise Unreachable(str(broken)) from None
        # An answer cut short must not look whole: let the server close the connection.
        raise ConnectionAbortedError(str(broken)) from None
