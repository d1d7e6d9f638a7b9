"""The one socket of a page: many topics, hints only, log lines the exception.

1. The handshake checks the Origin (asgi.py) and the session; without one the socket is closed
   with 4401.
2. Each topic is checked against the same selectors that serve the pages. A refused topic is
   answered with kind "refused" and code 4403; the others are not touched.
3. Hints are merged per topic and sent at most every 250 ms, for lists every second, log lines
   every 100 ms; a log is read once for all sockets of the process.
4. Session and rights are read again every ten seconds and whenever the user's own topic says so;
   what is no longer allowed falls silent, and without a session, or where the broker is away or
   began anew, the socket is closed.
5. A frame that no page of ours sends closes this socket (4400), and nothing else. One socket too
   many of a person is refused at the door: its page tries again later and polls meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import time
from collections.abc import Coroutine
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from accounts.models import User
from portal.live.broker import broker_runs
from portal.live.frames import MAX_TOPICS, FrameError, Wishes, read_frame
from portal.live.log_feed import feed_of
from portal.live.log_stream import LogReader
from portal.live.seats import leave_seat, take_seat
from portal.live.session import user_of_session
from portal.live.topics import log_stream_of, watchable
from portal.live.watches import Watch
from scheduler.hearing import group_name
from scheduler.tallies import Tally, tally

logger = logging.getLogger(__name__)

GROWN = "grown"  # of a log; its `ref` is the size in bytes
RECHECK_S = 10.0
SEND_TIMEOUT_S = 10.0
BROKER_TIMEOUT_S = 3.0
MAX_FRAMES_PER_WINDOW = 60
FRAME_WINDOW_S = 10.0
MAX_REFUSED = 20
UNREADABLE_S = 5.0

BAD_FRAME = 4400
SIGNED_OUT = 4401
FORBIDDEN = 4403
TOO_MANY_FRAMES = 4429
TRY_LATER = 1013


class LiveConsumer(AsyncWebsocketConsumer):
    """See the module's five rules."""

    async def connect(self) -> None:
        self.watches: dict[str, Watch] = {}
        self.jobs: set[asyncio.Task[None]] = set()
        self.user: User | None = None
        self.refused = 0
        self.frame_times: list[float] = []
        self.is_open = True
        self.runs: tuple[str, ...] | None = None
        self.session_key = getattr(self.scope.get("session"), "session_key", None)
        self.user = await database_sync_to_async(user_of_session)(self.session_key)
        address = (self.scope.get("client") or ("",))[0]
        if self.user is not None and not await take_seat(self.user.pk, self, address):
            # Not accepted: a page takes what it cannot open, again and again, for a reason to poll.
            self.is_open = False
            await self.close()
            return
        # Accepted first: a browser is told the code of a close only on an open socket.
        await self.accept()
        if self.user is None:
            await self.hang_up(SIGNED_OUT)
            return
        self._start(self._recheck_for_ever())

    async def disconnect(self, code: int) -> None:
        self.is_open = False
        if self.user is not None:
            leave_seat(self.user.pk, self)
        for task in list(self.jobs):
            task.cancel()
        for topic in list(self.watches):
            await self._forget(topic)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if not self.is_open or self.user is None:
            return
        now = time.monotonic()
        self.frame_times = [t for t in self.frame_times if t > now - FRAME_WINDOW_S] + [now]
        if len(self.frame_times) > MAX_FRAMES_PER_WINDOW:
            await self.hang_up(TOO_MANY_FRAMES)
            return
        try:
            if text_data is None:
                raise FrameError("binary")
            wishes = read_frame(text_data)
            if len(self.watches | wishes.subscribe) > MAX_TOPICS:
                raise FrameError("too many topics")
        except FrameError:
            await self.hang_up(BAD_FRAME)
            return
        await self._follow(wishes)

    async def _follow(self, wishes: Wishes) -> None:
        for topic in wishes.unsubscribe:
            await self._forget(topic)
        if not wishes.subscribe or self.user is None:
            return
        allowed = await database_sync_to_async(watchable)(self.user, list(wishes.subscribe))
        for topic, after in wishes.subscribe.items():
            if topic not in allowed:
                await self._refuse(topic)
            elif not await self._watch(topic, after):
                return

    async def _watch(self, topic: str, after: int | None) -> bool:
        """Begin to watch; False when the broker is away and the socket was closed for it."""
        if topic in self.watches:
            await self._forget(topic)
        watch = Watch(topic)
        if topic.startswith("log:"):
            watch.reader = LogReader(feed_of(*log_stream_of(topic)), after)
        if not await self._hears():
            return False
        # Before: also what is joined only in part is left at the end.
        self.watches[topic] = watch
        try:
            async with asyncio.timeout(BROKER_TIMEOUT_S):
                await self.channel_layer.group_add(group_name(topic), self.channel_name)
        except Exception as error:
            logger.warning("no hints for sockets, pages poll instead: %s", error)
            await self.hang_up(TRY_LATER)
            return False
        if watch.reader is not None:
            self._flush_soon(watch)
        else:
            # What changed between the page's rendering and this moment was told to nobody.
            await self._say({"topic": topic, "seq": 0, "kind": "watching", "ref": ""})
        return True

    async def _hears(self) -> bool:
        """Whether hints come, and none was lost since the first topic; if not, the socket is
        closed: its page polls, and fetches all anew when it is back."""
        runs = await broker_runs()
        self.runs = self.runs or runs
        if runs is None or runs != self.runs:
            await self.hang_up(TRY_LATER)
        return self.is_open

    async def _forget(self, topic: str) -> None:
        watch = self.watches.pop(topic, None)
        if watch is None:
            return
        if watch.flushing is not None:
            watch.flushing.cancel()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(BROKER_TIMEOUT_S):
                await self.channel_layer.group_discard(group_name(topic), self.channel_name)

    async def _refuse(self, topic: str) -> None:
        self.refused += 1
        if self.refused > MAX_REFUSED:
            await self.hang_up(FORBIDDEN)
            return
        await self._say({"topic": topic, "kind": "refused", "code": FORBIDDEN})

    async def hint(self, message: dict[str, Any]) -> None:
        """A hint from the channel layer; merged, never queued."""
        watch = self.watches.get(message["topic"])
        if watch is None:
            return
        kind, ref = message["kind"], message["ref"]
        if kind == GROWN:
            # Two web processes may tell of two pieces in the wrong order.
            ref = max(int(ref), int(watch.pending.get(kind, 0)))
        watch.pending[kind] = ref
        if message["topic"].startswith("user:"):
            self._start(self._recheck())
        if message["topic"].startswith("job:"):
            # That a log is complete is told by its job, not by its bytes.
            self._read_on(older_than_s=0.0)
        self._flush_soon(watch)

    def _read_on(self, older_than_s: float) -> None:
        """Look at the logs again, and read those that nobody has read for so long."""
        for watch in self.watches.values():
            if watch.reader is not None and not watch.reader.is_complete:
                if watch.reader.feed.age_s < older_than_s:
                    watch.pending.setdefault(GROWN, 0)
                self._flush_soon(watch)

    def _flush_soon(self, watch: Watch) -> None:
        if watch.flushing is None or watch.flushing.done():
            watch.flushing = self._start(self._flush(watch))

    async def _flush(self, watch: Watch) -> None:
        """Send what is pending, not more often than the topic allows, until nothing is left."""
        is_first = True
        while self.is_open and (watch.pending or (is_first and watch.reader)):
            is_first = False
            wait_s = watch.sent_at + watch.pause_s - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            pending, watch.pending = watch.pending, {}
            watch.sent_at = time.monotonic()
            if watch.reader is not None:
                size = int(pending[GROWN]) if set(pending) == {GROWN} else None
                try:
                    await self._send_lines(watch, watch.reader, size)
                except OSError as error:
                    # It takes no other topic along; the next look tries again.
                    logger.warning("%s cannot be read now: %s", watch.topic, error)
                    watch.sent_at += UNREADABLE_S
                continue
            for kind, ref in pending.items():
                watch.seq += 1
                await self._say({"topic": watch.topic, "seq": watch.seq, "kind": kind, "ref": ref})

    async def _send_lines(self, watch: Watch, reader: LogReader, size: int | None) -> None:
        """Send what is new; the log is known to have `size` bytes, None: it must be looked at."""
        await reader.catch_up(size)
        while self.is_open and self.user is not None:
            frame = await reader.next_frame(self.user)
            if frame is None:
                return
            watch.seq += 1
            # The rest of the frame is the same for everybody and was encoded once.
            await self._send_text(f'{{"topic":"{watch.topic}","seq":{watch.seq},{frame.body}')

    async def _recheck_for_ever(self) -> None:
        while self.is_open:
            # Sockets that were opened together are not looked at together for ever.
            await asyncio.sleep(RECHECK_S * random.uniform(0.7, 1.0))
            await self._recheck()

    async def _recheck(self) -> None:
        user = await database_sync_to_async(user_of_session)(self.session_key)
        if user is None:
            await self.hang_up(SIGNED_OUT)
            return
        self.user = user
        if not await self._hears():
            return
        topics = list(self.watches)
        allowed = await database_sync_to_async(watchable)(user, topics) if topics else set()
        for topic in topics:
            if topic not in allowed:
                await self._forget(topic)
                await self._refuse(topic)
        self._read_on(older_than_s=RECHECK_S / 2)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work))
        self.jobs.add(task)
        task.add_done_callback(self.jobs.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A fault of one socket's work closes that socket; its page polls and connects anew."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("live socket of user %s failed", getattr(self.user, "pk", None))
            await self.hang_up(TRY_LATER)

    async def _say(self, frame: dict[str, object]) -> None:
        await self._send_text(json.dumps(frame, separators=(",", ":")))

    async def _send_text(self, text: str) -> None:
        """Send one frame; who does not read for ten seconds, or is gone, is hung up on."""
        if not self.is_open:
            return
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self.send(text)
        except OSError:
            await self.hang_up(TRY_LATER)

    async def hang_up(self, code: int) -> None:
        """Close once, whoever asks."""
        if self.is_open:
            self.is_open = False
            if code == TRY_LATER:
                tally(Tally.SOCKET_RESYNC)
            with contextlib.suppress(Exception):
                await self.close(code)
