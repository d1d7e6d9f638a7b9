"""WebSockets of a session's program, whose other end is whatever the job has made of it."""

from __future__ import annotations

import asyncio
import time

import pytest
from websockets.frames import Frame
from websockets.server import ServerProtocol

from portal.live.sessions import sockets

pytestmark = pytest.mark.asyncio
SCOPE = {
    "path": "/s/7/kernel",
    "raw_path": b"/s/7/kernel",
    "query_string": b"",
    "headers": [(b"host", b"localhost"), (b"origin", b"http://localhost")],
}


class Program:
    """A stream to a program that opens a WebSocket for whoever asks, and then sends `frames`."""

    def __init__(self, *frames, more=b""):
        self.link = ServerProtocol()
        self.frames = frames
        self.coming = asyncio.Queue()
        self.more = more
        self.ended = ""

    async def write(self, data):
        self.link.receive_data(data)
        for event in self.link.events_received():
            if not isinstance(event, Frame):
                self.link.send_response(self.link.accept(event))
                self._say()
                for frame in self.frames:
                    self.link.send_frame(frame)
                    self._say()
                for at in range(0, len(self.more), 16 * 1024):
                    self.coming.put_nowait(self.more[at : at + 16 * 1024])

    def _say(self):
        self.coming.put_nowait(b"".join(self.link.data_to_send()))

    async def read(self):
        return await self.coming.get()

    async def reset(self, reason):
        self.ended = reason


@pytest.fixture
def sent():
    return []


@pytest.fixture
def send(sent):
    async def note(event):
        sent.append(event)

    return note


async def opened(program, send):
    work = sockets._Program(program, send, SCOPE)
    await work.begin()
    return work


async def test_a_message_in_endless_empty_pieces_neither_grows_nor_holds_others_up(sent, send):
    pieces = 50_000
    work = await opened(Program(more=b"\x01\x01a" + b"\x00\x00" * pieces + b"\x80\x01b"), send)
    turns, longest = 0, 0.0

    async def others():
        nonlocal turns, longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            turns, longest = turns + 1, max(longest, time.thread_time() - before)

    watching = asyncio.ensure_future(others())
    while not work.stream.coming.empty():
        await work.pass_on()
    watching.cancel()
    assert sent[1:] == [{"type": "websocket.send", "text": "ab"}]
    assert turns > 40 and longest < 0.5, f"others waited {longest:.2f} s of {turns} turns"
