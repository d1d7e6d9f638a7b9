"""Byte streams over one tunnel: both ends of `wire/tunnel.py`, for asyncio.

The one who is asked (`accept`) gets each new stream in a task of its own; the other opens them.
Nothing here waits while it takes a frame, so a stream that nobody reads never holds another one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

from scheduler.wire.tunnel import (
    MAX_DATA,
    MAX_STREAMS,
    WINDOW,
    Frame,
    FrameError,
    Kind,
    credit,
    read_frame,
    reset,
)

Send = Callable[[bytes], Awaitable[None]]
_MAX_NUMBER = 2**32 - 1
# The last of all streams go to whom has no more than as many: the others of a node get in too.
_FEW = MAX_STREAMS // 4


class StreamBroken(Exception):
    """The other side, or the tunnel, has ended the stream before its time; says why."""


class Stream:
    """One stream of bytes, both ways."""

    def __init__(self, mux: Mux, number: int, order: bytes) -> None:
        self.number = number
        self.order = order
        self.broken = ""
        self._mux = mux
        self._came: deque[bytes] = deque()
        self._waiting = 0
        self._taken = 0
        self._may_send = WINDOW
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._their_end = self._our_end = False

    async def read(self) -> bytes:
        """The next bytes; empty at the end. Raises StreamBroken."""
        while not self._came:
            if self.broken:
                raise StreamBroken(self.broken)
            if self._their_end:
                return b""
            self._news.clear()
            await self._news.wait()
        piece = self._came.popleft()
        self._waiting -= len(piece)
        self._taken += len(piece)
        if self._taken >= WINDOW // 2 and not self._their_end and not self.broken:
            count, self._taken = self._taken, 0
            await self._mux.send(credit(self.number, count))
        return piece

    async def write(self, data: bytes) -> None:
        """Send all of `data`, as fast as the other side takes it. Raises StreamBroken."""
        rest = memoryview(data)
        while rest:
            if self.broken or self._our_end:
                raise StreamBroken(self.broken or "ended")
            if not self._may_send:
                self._room.clear()
                await self._room.wait()
                continue
            piece = rest[: min(MAX_DATA, self._may_send)]
            self._may_send -= len(piece)
            rest = rest[len(piece) :]
            await self._mux.send(Frame(Kind.DATA, self.number, bytes(piece)))

    async def end(self) -> None:
        """Nothing more is sent; what comes can still be read."""
        if not self._our_end and not self.broken:
            self._our_end = True
            with contextlib.suppress(StreamBroken):
                await self._mux.send(Frame(Kind.END, self.number))
            self._settle()

    async def reset(self, reason: str) -> None:
        """End both ways at once, unless that has happened; who reads or writes is told why."""
        if self.broken or (self._our_end and self._their_end):
            return
        self.break_off(reason)
        with contextlib.suppress(StreamBroken):
            await self._mux.send(reset(self.number, reason))

    def break_off(self, reason: str) -> None:
        """The stream is gone; nothing is sent."""
        self.broken = self.broken or reason or "broken off"
        self._mux.forget(self.number)
        self._news.set()
        self._room.set()

    def take(self, frame: Frame) -> None:
        """A frame of this stream has come; raises FrameError for one that may not."""
        if frame.kind is Kind.RESET:
            self.break_off(frame.reason)
        elif frame.kind is Kind.CREDIT:
            self._may_send += frame.count
            if self._may_send > WINDOW:
                raise FrameError("more credit than was used")
            self._room.set()
        elif self._their_end:
            raise FrameError(f"{frame.kind.name} after END")
        elif frame.kind is Kind.END:
            self._their_end = True
            self._news.set()
            self._settle()
        else:
            self._waiting += len(frame.payload)
            # What was taken but not yet credited still counts.
            if self._waiting + self._taken > WINDOW:
                raise FrameError("more data than credit")
            self._came.append(frame.payload)
            self._news.set()

    def _settle(self) -> None:
        if self._our_end and self._their_end:
            self._mux.forget(self.number)


Accept = Callable[[Stream, bytes], Coroutine[None, None, None]]


class Mux:
    """All streams of one tunnel. `send` carries one message; what it raises closes the tunnel."""

    def __init__(self, send: Send, accept: Accept | None = None) -> None:
        self.closed = ""
        self._send = send
        self._accept = accept
        self._streams: dict[int, Stream] = {}
        self._last = 0
        self._turn = asyncio.Lock()
        self._gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._streams)

    async def open(self, order: bytes) -> Stream:
        """A new stream to whom `order` names. Raises StreamBroken, sooner for who has many."""
        if self.closed:
            raise StreamBroken(self.closed)
        of_this = sum(one.order == order for one in self._streams.values())
        room = MAX_STREAMS if of_this < _FEW else MAX_STREAMS - _FEW
        if len(self._streams) >= room:
            raise StreamBroken("too many streams are open")
        self._last += 1
        if self._last > _MAX_NUMBER:
            self.close("all numbers are used up")
            raise StreamBroken(self.closed)
        stream = self._streams[self._last] = Stream(self, self._last, order)
        await self.send(Frame(Kind.OPEN, stream.number, order))
        return stream

    async def send(self, frame: Frame) -> None:
        """One frame, whole, behind those before it. Raises StreamBroken once the tunnel is gone."""
        async with self._turn:
            if self.closed:
                raise StreamBroken(self.closed)
            try:
                await self._send(frame.packed())
            except Exception as error:
                self.close(f"the tunnel is gone: {type(error).__name__}")
                raise StreamBroken(self.closed) from None

    def feed(self, raw: bytes) -> None:
        """A message has come. Raises FrameError: the tunnel must be closed then."""
        frame = read_frame(raw)
        if frame.kind is Kind.OPEN:
            self._open(frame)
        elif (stream := self._streams.get(frame.stream)) is not None:
            stream.take(frame)
        elif frame.stream > self._last:
            raise FrameError("a stream that nobody has opened")
        # Else one that is over here, while the other side did not know yet.

    def _open(self, frame: Frame) -> None:
        if self._accept is None or frame.stream <= self._last:
            raise FrameError("OPEN where it may not be")
        self._last = frame.stream
        if len(self._streams) >= MAX_STREAMS:
            self._begin(self.send(reset(frame.stream, "too many streams are open")))
            return
        stream = self._streams[frame.stream] = Stream(self, frame.stream, frame.payload)
        self._begin(self._serve(self._accept, stream, frame.payload))

    async def _serve(self, accept: Accept, stream: Stream, order: bytes) -> None:
        try:
            await accept(stream, order)
        finally:
            await stream.reset("over")

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its stream was reset; that is all there is to do

    def forget(self, number: int) -> None:
        """A stream is over; its number is not used again."""
        self._streams.pop(number, None)

    async def wait_closed(self) -> None:
        """Until somebody has called `close`."""
        await self._gone.wait()

    def close(self, reason: str) -> None:
        """The tunnel is gone, and all its streams with it."""
        self.closed = self.closed or reason or "closed"
        self._gone.set()
        for stream in list(self._streams.values()):
            stream.break_off(self.closed)
        for task in list(self._tasks):
            task.cancel()
