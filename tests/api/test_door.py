"""The door that the server opens for nodes, spoken to as servers do."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from django.test import AsyncClient

from portal.api.nodes import syncing
from portal.api.nodes.door import NodeDoor
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import Refusal, SyncReply
from tests.api.test_agent import REQUEST, enrolled

SYNC = "/api/agent/v1/sync"
__all__ = ["enrolled"]

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.once,
    pytest.mark.django_db(transaction=True),
]


class Caller:
    """One request as a server hands it over; `leave` ends the connection."""

    def __init__(self, *parts: bytes, path: str = SYNC, secret: str = "", query: bytes = b""):
        headers = [(b"content-length", str(sum(map(len, parts))).encode())]
        headers += [(b"authorization", f"Bearer {secret}".encode())] if secret else []
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": query,
            "headers": headers,
        }
        self._coming: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            self._coming.put_nowait(
                {"type": "http.request", "body": part, "more_body": not is_last}
            )
        self.told: list[dict[str, object]] = []
        self.elsewhere: list[str] = []
        self.is_listened_to = False

    def leave(self) -> None:
        self._coming.put_nowait({"type": "http.disconnect"})

    async def call(self) -> None:
        async def send(message):
            self.told.append(message)

        async def elsewhere(scope, receive, send):
            self.elsewhere.append(scope["path"])

        await NodeDoor(elsewhere)(self.scope, self._receive, send)

    async def _receive(self) -> dict[str, object]:
        """`is_listened_to`: the body is over, and somebody waits for what comes behind it."""
        self.is_listened_to = self._coming.empty()
        return await self._coming.get()

    @property
    def status(self) -> object:
        return self.told[0]["status"]

    @property
    def body(self) -> bytes:
        body = self.told[1]["body"]
        assert isinstance(body, bytes)
        return body


async def test_its_answer_is_the_views(enrolled):
    _, secret = enrolled
    raw = encode(REQUEST)
    caller = Caller(raw[:10], raw[10:], secret=secret)
    await caller.call()
    told = await AsyncClient().post(
        SYNC, raw, "application/json", headers={"Authorization": f"Bearer {secret}"}
    )
    assert (caller.status, told.status_code) == (200, 200)
    assert decode(SyncReply, caller.body) == decode(SyncReply, told.content)
    headers = dict(caller.told[0]["headers"])
    assert headers[b"Content-Length"] == str(len(caller.body)).encode()
    assert headers[b"Cache-Control"] == b"no-store"


async def test_the_parts_of_an_address_reach_the_view(enrolled):
    _, secret = enrolled
    caller = Caller(b"x", path="/api/agent/v1/attempts/7/log", query=b"rank=0", secret=secret)
    await caller.call()
    assert caller.status == 400 and "offset" in decode(Refusal, caller.body).detail


@pytest.mark.parametrize("path", ["/api/agent/v1/nothing", "/api/agent/", "/api/agent/v2/sync"])
async def test_what_is_no_call_of_a_node_leads_elsewhere(path):
    caller = Caller(b"", path=path)
    await caller.call()
    assert caller.elsewhere == [path] and not caller.told


async def test_an_address_that_is_no_text_is_refused():
    caller = Caller(b"{}", query=b"rank=\xff")
    await caller.call()
    assert caller.status == 400 and decode(Refusal, caller.body).code == "malformed"


async def test_who_leaves_before_all_is_said_is_not_answered():
    caller = Caller(b"{", b"}")
    caller._coming.get_nowait()
    caller._coming.get_nowait()
    caller.leave()
    await caller.call()
    assert not caller.told


async def _held_call(node, secret):
    """A call that is held and watched, and the task that serves it."""
    first = Caller(encode(REQUEST), secret=secret)
    await first.call()
    seen = decode(SyncReply, first.body).revision
    caller = Caller(encode(replace(REQUEST, hold_s=20, seen_revision=seen)), secret=secret)
    serving = asyncio.create_task(caller.call())
    async with asyncio.timeout(10):
        while not (syncing._held._held[node.pk] and caller.is_listened_to):
            await asyncio.sleep(0.01)
    return caller, serving


async def test_who_leaves_while_held_is_held_no_longer(enrolled):
    node, secret = enrolled
    caller, serving = await _held_call(node, secret)
    caller.leave()
    async with asyncio.timeout(10):
        await serving
    assert not syncing._held._held[node.pk] and not caller.told


async def test_a_server_that_ends_ends_the_calls_it_holds(enrolled):
    node, secret = enrolled
    _, serving = await _held_call(node, secret)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not syncing._held._held[node.pk]
