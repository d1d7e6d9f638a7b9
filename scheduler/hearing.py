"""Hints as they come in: a topic is subscribed to once in a process, however many wait for it.

Subscribing and leaving are four commands to the broker and four answers. A node holds one call
after the other, so its topic is kept between them; equals subscribing anew for each call.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from itertools import count
from weakref import WeakKeyDictionary

from channels.layers import get_channel_layer

logger = logging.getLogger(__name__)

SUBSCRIBE_WITHIN_S = 2.0
# A subscription that broke without a word is not used for longer than this.
OLDEST_S = 60.0
_TRY_AGAIN_S = 1.0

# Moments of this process in the order they came, so that "since I looked" needs no clock.
_moments = count(1)


def moment() -> int:
    """Now: what is heard later has a higher number."""
    return next(_moments)


class HintsLost(Exception):
    """The channel layer does not answer: whoever waits has to look."""


class Ear:
    """One topic that is subscribed to; `heard_at` is the moment of the last hint."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.users = 0
        self.since = self.heard_at = 0
        self.opened_s = time.monotonic()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_fit(self) -> bool:
        """Whether it may serve another one who waits."""
        is_whole = self._task is None or not self._task.done()
        return is_whole and time.monotonic() - self.opened_s < OLDEST_S

    def is_quiet_since(self, when: int) -> bool:
        """Whether the subscription stood at that moment, and nothing was heard after it."""
        return 0 < self.since <= when and self.heard_at <= when

    async def wait(self, since: int, timeout_s: float) -> bool:
        """Return at the first hint after that moment, True, or when time is up."""
        deadline = time.monotonic() + timeout_s
        while self.heard_at <= since:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._news.wait()
        return True

    async def open(self) -> None:
        """Subscribe; raises HintsLost."""
        try:
            async with asyncio.timeout(SUBSCRIBE_WITHIN_S):
                layer = get_channel_layer()
                channel = await layer.new_channel()
                await layer.group_add(group_name(self.topic), channel)
        except Exception as error:
            raise HintsLost(f"{error}" or type(error).__name__) from error
        self.since = moment()
        self._task = asyncio.create_task(self._listen(layer, channel))

    def close(self) -> None:
        """Leave the topic; nobody waits for it any more."""
        if self._task is not None:
            self._task.cancel()

    async def _listen(self, layer: object, channel: str) -> None:
        try:
            while True:
                await layer.receive(channel)  # type: ignore[attr-defined]
                self.heard_at = moment()
                self._news.set()
        except Exception as error:
            logger.warning("hints for %s are lost, looking instead: %s", self.topic, error)
        finally:
            with contextlib.suppress(Exception):
                await layer.group_discard(  # type: ignore[attr-defined]
                    group_name(self.topic), channel
                )


_Opening = asyncio.Task[Ear]
_open: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Opening]] = WeakKeyDictionary()


def group_name(topic: str) -> str:
    """The channel layer's name for a topic."""
    return topic.replace(":", ".")


@contextlib.asynccontextmanager
async def listening(topic: str, *, keeps: bool = False) -> AsyncIterator[Ear]:
    """An ear for the topic; raises HintsLost. `keeps`: it stays a while for who listens next."""
    ears = _open.setdefault(asyncio.get_running_loop(), {})
    opening = ears.get(topic)
    if opening is None or not _is_fit(opening):
        opening = ears[topic] = asyncio.create_task(_opened(topic))
    try:
        ear = await asyncio.shield(opening)
    except HintsLost:
        if ears.get(topic) is opening:
            del ears[topic]
        raise
    ear.users += 1
    try:
        yield ear
    finally:
        ear.users -= 1
        if not ear.users and not (keeps and ears.get(topic) is opening):
            if ears.get(topic) is opening:
                del ears[topic]
            ear.close()
        _tidy(ears)
        if not ears:
            _open.pop(asyncio.get_running_loop(), None)


async def _opened(topic: str) -> Ear:
    ear = Ear(topic)
    await ear.open()
    return ear


def _is_fit(opening: _Opening) -> bool:
    if not opening.done():
        return True
    return not opening.cancelled() and not opening.exception() and opening.result().is_fit


def _tidy(ears: dict[str, _Opening]) -> None:
    """Close the oldest ones that nobody came back to; those opened first are first in line."""
    while ears:
        topic, opening = next(iter(ears.items()))
        if _is_fit(opening):
            return
        del ears[topic]
        if not opening.cancelled() and not opening.exception() and not opening.result().users:
            opening.result().close()


async def call_at_hints(topic: str, act: Callable[[], object]) -> None:
    """Call `act` at every hint, for ever; and once whenever hints may have been missed."""
    while True:
        try:
            async with listening(topic) as ear:
                seen = ear.since
                act()
                while ear.is_fit:
                    if await ear.wait(seen, OLDEST_S):
                        seen = moment()
                        act()
        except HintsLost as error:
            logger.info("no hints for %s at present: %s", topic, error)
            await asyncio.sleep(_TRY_AGAIN_S)
