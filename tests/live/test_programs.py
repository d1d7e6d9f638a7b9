"""WebSockets of a session's program, whose other end is whatever the job has made of it."""

from __future__ import annotations

import asyncio
import time

import pytest
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

from portal.live.sessions import access, headers, sockets
from portal.live.sessions.tunnels import Tunnels
from scheduler.services.sessions import Entry
from scheduler.wire.streams import Mux

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
        self.came = []
        self.ended = ""

    async def write(self, data):
        self.link.receive_data(data)
        for event in self.link.events_received():
            self.came.append(event)
            if not isinstance(event, Frame):
                self.link.send_response(self.link.accept(event))
                self.say(*self.frames)
                for at in range(0, len(self.more), 16 * 1024):
                    self.coming.put_nowait(self.more[at : at + 16 * 1024])

    def say(self, *frames):
        for frame in frames:
            self.link.send_frame(frame)
        self.coming.put_nowait(b"".join(self.link.data_to_send()))

    def answered(self, opcode):
        return sum(isinstance(one, Frame) and one.opcode is opcode for one in self.came)

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


async def until(what):
    async with asyncio.timeout(5):
        while not what():
            await asyncio.sleep(0.01)


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


class Keeper(access.Doorkeeper):
    """Lets everybody in; keeps who was said to have done something."""

    def __init__(self):
        super().__init__()
        self.touched = []

    async def entry(self, caller, job_id, *, afresh=False):
        return Entry(1, 1, job_id, "jupyter", fence=1, node_id=1)

    async def touch(self, caller, job_id):
        self.touched.append(caller)


async def test_pings_are_nobody_and_what_is_shown_is_the_program(sent, send, monkeypatch):
    keeper = Keeper()
    monkeypatch.setattr(sockets, "doorkeeper", keeper)
    pings = [Frame(Opcode.PING, b"alive")] * 3
    program = Program(*pings)
    entry, caller = await keeper.entry(None, 7), access.Caller("key", "signed in")
    typed = asyncio.Queue()
    work = sockets._Program(program, send, SCOPE)
    carried = asyncio.ensure_future(sockets._carry(work, typed.get, send, entry, caller))
    await until(lambda: program.answered(Opcode.PONG) == len(pings))
    assert keeper.touched == []
    program.say(Frame(Opcode.TEXT, b"12 %"))
    await until(lambda: keeper.touched)
    assert keeper.touched == [None]
    typed.put_nowait({"type": "websocket.receive", "text": "stop"})
    await until(lambda: program.answered(Opcode.TEXT))
    assert keeper.touched == [None, caller]
    typed.put_nowait({"type": "websocket.disconnect"})
    await carried
    assert program.ended


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_program_that_never_answers_keeps_no_stream(sent, send, monkeypatch, leaves):
    async def swallow(frame):
        """The node takes all and the program says nothing."""

    mux, events = Mux(swallow), asyncio.Queue()
    doors = Tunnels()
    doors.put(1, mux)
    monkeypatch.setattr(sockets, "tunnels", doors)
    monkeypatch.setattr(sockets, "doorkeeper", Keeper())
    monkeypatch.setattr(sockets, "_BEGUN_WITHIN_S", 30.0 if leaves else 0.05)
    events.put_nowait({"type": "websocket.connect"})
    served = asyncio.ensure_future(sockets.session_socket(SCOPE, events.get, send))
    if leaves:
        await until(lambda: len(mux))
        events.put_nowait({"type": "websocket.disconnect"})
    async with asyncio.timeout(5):
        await served
    assert len(mux) == 0
    assert sent == [{"type": "websocket.close", "code": 1000 if leaves else sockets.GONE}]


async def test_an_address_that_is_none_keeps_no_stream(send, monkeypatch):
    program, keeper = Program(), Keeper()
    monkeypatch.setattr(sockets, "doorkeeper", keeper)
    scope = {**SCOPE, "headers": [(b"host", b"localhost:x")]}
    work = sockets._Program(program, send, scope)
    with pytest.raises(ValueError, match="Port"):
        await sockets._carry(
            work, asyncio.Queue().get, send, await keeper.entry(None, 7), access.Caller("", "")
        )
    assert program.ended


@pytest.mark.django_db(transaction=True)
async def test_only_a_person_stays_signed_in_by_what_is_done(monkeypatch):
    kept, noted = [], []
    monkeypatch.setattr(access, "keep_signed_in", lambda key, now: kept.append(key))
    monkeypatch.setattr(access, "note_activity", lambda job_id, at: noted.append(job_id))
    keeper, caller = access.Doorkeeper(), access.Caller("key", "signed in")
    for by in (None, None, caller, caller):
        await keeper.touch(by, 7)
    assert (noted, kept) == ([7, 7], ["signed in"])


@pytest.mark.parametrize(
    ("app", "path", "asked"),
    [
        ("vscode", b"/s/7/", b"/"),
        ("vscode", b"/s/7/static/a%20b.js", b"/static/a%20b.js"),
        ("vscode", b"/s/77/", b"/s/77/"),
        ("jupyter", b"/s/7/lab", b"/s/7/lab"),
    ],
)
async def test_a_program_without_an_address_of_its_own_serves_from_the_root(app, path, asked):
    entry = Entry(1, 1, 7, app, fence=1, node_id=1)
    assert headers.as_asked({**SCOPE, "raw_path": path}, entry) == {**SCOPE, "raw_path": asked}
