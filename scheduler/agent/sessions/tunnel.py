"""The node's end of the tunnel: one WebSocket, opened outward, while a session runs here.

A thread with a loop of its own. Without a session there is no connection; a lost one is opened
again, and what people had open through it they open again, too. Attempts go on meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Mapping
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from scheduler.agent.client import Backoff, is_loopback
from scheduler.agent.converge import Roster
from scheduler.agent.sessions.door import NO_SESSION, Place, fence_of, serve
from scheduler.agent.setup.folders import attempt_folder
from scheduler.wire.messages import AGENT_VERSION
from scheduler.wire.sessions import SUBPROTOCOL, TUNNEL_PATH
from scheduler.wire.streams import Mux, Stream
from scheduler.wire.tunnel import MAX_FRAME, FrameError

logger = logging.getLogger(__name__)

_OPEN_S = 10.0
_PING_S = 20.0
_ENDING_S = 2.0


def sessions_of(roster: Roster) -> dict[int, Place]:
    """Where the sessions that run here listen, by fence."""
    work = roster.options.work
    return {
        attempt.fence: Place(
            attempt_folder(work, attempt.fence, attempt.assignment.rank), attempt.launch.uid
        )
        for attempt in roster.live()
        if attempt.assignment.launch.session is not None
        and attempt.launch is not None
        and not attempt.is_stopping()
    }


class Tunnel:
    """Call `tend` with the sessions there are; `close` at the agent's end."""

    def __init__(self, server: str, retry_cap_s: float) -> None:
        parts = urlsplit(server)
        scheme = "wss" if parts.scheme == "https" else "ws"
        self.address = f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{TUNNEL_PATH}"
        self._direct = is_loopback(server)
        self._retry_cap_s = retry_cap_s
        self._token = ""
        self._places: dict[int, Place] = {}
        self._open: dict[int, set[asyncio.Task[None]]] = {}
        self._wanted: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = False

    def tend(self, places: Mapping[int, Place], token: str) -> None:
        """These are the sessions now, by fence; the first one begins the tunnel's thread."""
        self._token = token
        if self._thread is None:
            if not places:
                return
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, name="tunnel", daemon=True)
            self._thread.start()
        if self._loop is not None and dict(places) != self._places:
            self._call(dict(places))

    def close(self) -> None:
        """Let go of the connection; sessions go on."""
        self._ending = True
        if self._thread is not None:
            self._call({})
            self._thread.join(_ENDING_S)

    def _call(self, places: dict[int, Place]) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._take, places)

    def _take(self, places: dict[int, Place]) -> None:
        """On the loop: what ended is closed at once."""
        gone = self._places.keys() - places.keys()
        self._places = places
        for fence in gone:
            for task in self._open.pop(fence, ()):
                task.cancel()
        if self._wanted is not None:
            self._wanted.set()

    def _run(self) -> None:
        assert self._loop is not None
        try:
            self._loop.run_until_complete(self._keep_open())
        finally:
            self._loop.close()

    async def _keep_open(self) -> None:
        self._wanted = asyncio.Event()
        backoff = Backoff(self._retry_cap_s)
        while not self._ending:
            if not self._places:
                self._wanted.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), 1.0)
                continue
            if await self._hold():
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _hold(self) -> bool:
        """One connection for as long as it lasts or is wanted; whether it came about."""
        held = False
        try:
            async with connect(
                self.address,
                additional_headers={"Authorization": f"Bearer {self._token}"},
                user_agent_header=f"trainyard-agent/{AGENT_VERSION}",
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                compression=None,
                max_size=MAX_FRAME,
                open_timeout=_OPEN_S,
                ping_interval=_PING_S,
                ping_timeout=_PING_S,
                close_timeout=_ENDING_S,
                # A proxy set for the outer world cannot know this host's loopback.
                proxy=None if self._direct else True,
            ) as socket:
                held = True
                logger.info("the tunnel for sessions is open")
                mux = Mux(socket.send, self._serve)
                watch = asyncio.ensure_future(self._leave_when_idle(socket))
                try:
                    async for message in socket:
                        if isinstance(message, str):
                            raise FrameError("text")
                        mux.feed(message)
                finally:
                    watch.cancel()
                    mux.close("the tunnel is closed")
        except FrameError as problem:
            logger.error("the tunnel is closed: the server broke its rules: %s", problem)
        except Exception as problem:
            # What a library for networks can raise is open-ended, and attempts must go on.
            logger.warning("the tunnel for sessions is not open: %s", problem)
        return held

    async def _leave_when_idle(self, socket: ClientConnection) -> None:
        while self._places and not self._ending:
            await asyncio.sleep(0.5)
        await socket.close()

    async def _serve(self, stream: Stream, order: bytes) -> None:
        fence = fence_of(order)
        place = self._places.get(fence)
        if place is None:
            await stream.reset(NO_SESSION)
            return
        task = asyncio.current_task()
        assert task is not None
        mine = self._open.setdefault(fence, set())
        mine.add(task)
        try:
            await serve(stream, place)
        finally:
            mine.discard(task)
