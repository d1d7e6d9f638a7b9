"""A proxy between agents and portal that loses, delays, repeats and reorders what they say.

It reads whole HTTP requests, so that a fault hits a message and not a random byte. Every request
gets a connection of its own to the portal, which so always sees each of them once per pass.
A connection that becomes a WebSocket, as a node's tunnel for sessions does, goes on byte by byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import threading
import time
from dataclasses import dataclass, field

_HELD_S = 120.0
_HEAD_END = b"\r\n\r\n"
_SYNC = b"/api/agent/v1/sync "
_LOG = re.compile(rb"POST /api/agent/v1/attempts/(\d+)/log\?rank=(\d+)&")
_PIECE = 64 * 1024
_LOOKED_S = 0.05


@dataclass
class Weather:
    """What the proxy does now. Shares are of requests; `block` is "", both, in or out.

    Blocked `in`: requests are swallowed, half open. `out`: they arrive, their answers do not.
    """

    block: str = ""
    delay_s: float = 0.0
    lose: float = 0.0
    repeat: float = 0.0
    reorder: float = 0.0
    cut: float = 0.0
    refuse: float = 0.0
    refusals: tuple[int, ...] = (500, 502, 503, 429)


@dataclass
class Proxy:
    """One way to the portal, with its own weather; `address` is where its node finds it."""

    target: tuple[str, int]
    dice: random.Random
    weather: Weather = field(default_factory=Weather)
    port: int = 0
    hits: int = 0
    # Syncs whose success was told to the caller: when they were asked, and when answered.
    heard: list[tuple[float, float]] = field(default_factory=list)
    # By attempt and rank, how much of its log was told to be stored.
    acknowledged: dict[tuple[int, int], int] = field(default_factory=dict)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """As a node's `server`."""
        return f"http://127.0.0.1:{self.port}"

    async def listen(self) -> None:
        """Begin; returns once the port is known."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def clear(self) -> None:
        """Good weather, and no connection that was held keeps anybody waiting."""
        self.weather = Weather()
        for writer in list(self._open):
            writer.transport.abort()

    async def close(self) -> None:
        """No new connections, and none is served on."""
        if self._server is not None:
            self._server.close()
        waiting = list(self._tasks)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        task = asyncio.current_task()
        if task is not None:
            # Nobody else keeps it while it waits.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            while True:
                head = await reader.readuntil(_HEAD_END)
                if b"\r\nupgrade: websocket\r\n" in head.lower():
                    await self._carry(head, reader, writer)
                    return
                body = await reader.readexactly(_length(head))
                if not await self._pass_on(head, body, writer):
                    return
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        except asyncio.CancelledError:
            # Only `close` does that, and it waits; asyncio 3.11 would print each as an error.
            return
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pass_on(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """One request there and its answer back; False: the connection ends."""
        weather, roll, asked_at = self.weather, self.dice.random, time.time()
        if weather.refuse and roll() < weather.refuse:
            self.hits += 1
            writer.write(_refusal(self.dice.choice(weather.refusals)))
            await writer.drain()
            return True
        if weather.block in ("both", "in") or roll() < weather.lose:
            self.hits += 1
            if weather.block:
                await asyncio.sleep(_HELD_S)
            return False
        if weather.delay_s or roll() < weather.reorder:
            self.hits += 1
            # Others overtake it meanwhile: a node has two calls on their way.
            await asyncio.sleep(weather.delay_s or self.dice.uniform(0.1, 1.5))
        again = roll() < weather.repeat
        answer = await self._ask(head, body)
        if again:
            self.hits += 1
            answer = await self._ask(head, body)
        if weather.block == "out" or roll() < weather.cut:
            self.hits += 1
            if weather.block:
                await asyncio.sleep(_HELD_S)
            return False
        writer.write(answer)
        await writer.drain()
        if answer.startswith(b"HTTP/1.1 2") and _SYNC in head[: head.index(b"\r\n")]:
            self.heard.append((asked_at, time.time()))
        self._note_log(head, answer)
        return False

    def _note_log(self, head: bytes, answer: bytes) -> None:
        called = _LOG.match(head)
        if called is None or not answer.startswith(b"HTTP/1.1 2"):
            return
        place = (int(called[1]), int(called[2]))
        with contextlib.suppress(ValueError, KeyError, TypeError):
            size = int(json.loads(answer.partition(_HEAD_END)[2])["size"])
            self.acknowledged[place] = max(self.acknowledged.get(place, 0), size)

    async def _carry(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """A WebSocket from its handshake on, until either side or the weather ends it."""
        if self.weather.refuse and self.dice.random() < self.weather.refuse:
            self.hits += 1
            writer.write(_refusal(self.dice.choice(self.weather.refusals)))
            await writer.drain()
            return
        back, there = await asyncio.open_connection(*self.target)
        there.write(head)
        ways = {
            asyncio.ensure_future(self._pump(reader, there, ("both", "in"))),
            asyncio.ensure_future(self._pump(back, writer, ("both", "out"))),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, blocks: tuple[str, ...]
    ) -> None:
        """One way; held while it is blocked. Ends where a piece is lost: a stream has no gaps."""
        while piece := await source.read(_PIECE):
            weather, roll = self.weather, self.dice.random
            if roll() < weather.lose or roll() < weather.cut:
                self.hits += 1
                return
            await asyncio.sleep(weather.delay_s)
            while self.weather.block in blocks:
                await asyncio.sleep(_LOOKED_S)
            sink.write(piece)
            await sink.drain()

    async def _ask(self, head: bytes, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self.target)
        try:
            writer.write(_closing(head) + body)
            await writer.drain()
            answer = await reader.read()
            while piece := await reader.read():
                answer += piece
            return answer
        finally:
            writer.transport.abort()


class Proxies:
    """All proxies of a run, on one thread with a loop of its own."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._all: list[Proxy] = []
        self._thread.start()

    def open(self, address: str) -> Proxy:
        """A proxy to `http://host:port`."""
        host, _, port = address.removeprefix("http://").rpartition(":")
        proxy = Proxy((host, int(port)), random.Random(self._dice.random()))
        asyncio.run_coroutine_threadsafe(proxy.listen(), self._loop).result(30)
        self._all.append(proxy)
        return proxy

    def clear(self, proxy: Proxy) -> None:
        """Good weather again, from any thread."""
        self._loop.call_soon_threadsafe(proxy.clear)

    def close(self) -> None:
        """End all of it; what was held is dropped."""
        for proxy in self._all:
            with contextlib.suppress(TimeoutError, RuntimeError):
                asyncio.run_coroutine_threadsafe(proxy.close(), self._loop).result(10)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self._loop.close()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def _closing(head: bytes) -> bytes:
    """The head with `Connection: close`, so that the end of the answer is its connection's."""
    lines = head.removesuffix(_HEAD_END).split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"Connection: close"]) + _HEAD_END


def _refusal(status: int) -> bytes:
    return b"HTTP/1.1 %d Not now\r\nContent-Length: 0\r\n\r\n" % status
