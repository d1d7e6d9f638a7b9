"""Hints: something changed, look again. They may be lost; nothing is wrong without them.

Topics are `job:<id>`, `project:<id>`, `queue:<pool>`, `nodes`, `node:<id>`, `user:<id>`,
`log:<attempt>:<rank>` and `scheduling`. A hint leaves after commit, from a thread of its own, so
that a slow or absent broker never holds up a writer. `scheduler/hearing.py` is the other end.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from celery import current_app
from channels.layers import get_channel_layer
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db import transaction

from scheduler.hearing import HintsLost, group_name, listening, moment

logger = logging.getLogger(__name__)

# Whoever schedules listens here, for that there may be something to start.
SCHEDULING = "scheduling"
# One hint a topic within this time is enough: the reader fetches the truth anyway.
COALESCE_S = 0.01
RECHECK_S = 2.0
RECHECK_WITHOUT_BROKER_S = 0.5
MAX_PENDING = 20_000
QUIET_AFTER_FAILURE_S = 1.0
_WAKE = (SCHEDULING, "wake")
FLUSH_WITHIN_S = 1.0


def publish_on_commit(topic: str, kind: str = "changed", ref: str | int = "") -> None:
    """Tell everybody who watches `topic`, once the transaction is committed."""
    transaction.on_commit(lambda: _publisher.put(topic, kind, ref), robust=True)


def wake_scheduler_on_commit() -> None:
    """Let the next scheduling cycle start at once; without the broker its own timer does."""
    transaction.on_commit(_publisher.wake, robust=True)


def send_on_commit(task: str) -> None:
    """Let a worker begin a task without arguments at once; without the broker its beat does."""
    transaction.on_commit(lambda: _publisher.send(task), robust=True)


class _Publisher:
    """Sends hints from a daemon thread with its own event loop; started once per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: dict[tuple[str, str], str | int] = {}
        self._tasks: set[str] = set()
        self._ready: asyncio.Event | None = None
        self._is_sending = False
        # Waking the thread costs a system call: once for all that it will find is enough.
        self._is_nudged = False
        self._quiet_until = 0.0

    def recheck_s(self) -> float:
        """How often to look without a hint: oftener while the broker refuses what is said here."""
        is_away = time.monotonic() < self._quiet_until + RECHECK_S
        return RECHECK_WITHOUT_BROKER_S if is_away else RECHECK_S

    def put(self, topic: str, kind: str, ref: str | int) -> None:
        with self._lock:
            if len(self._pending) >= MAX_PENDING:
                return
            self._pending[topic, kind] = ref
            is_known = self._is_nudged and self._pid == os.getpid()
            self._is_nudged = True
        if not is_known:
            self._nudge()

    def wake(self) -> None:
        self.put(*_WAKE, "")

    def send(self, task: str) -> None:
        with self._lock:
            self._tasks.add(task)
        self._nudge()

    def _nudge(self) -> None:
        with self._lock:
            if self._pid != os.getpid():  # first use here, or a forked child without the thread
                self._pid = os.getpid()
                started = threading.Event()
                threading.Thread(
                    target=self._serve, args=(started,), name="hints", daemon=True
                ).start()
                started.wait(5)
                atexit.register(self._flush)
            loop, ready = self._loop, self._ready
        if loop is not None and ready is not None:
            with contextlib.suppress(RuntimeError):  # the process is going down
                loop.call_soon_threadsafe(ready.set)

    def _flush(self) -> None:
        """Let a short-lived process, a command say, still send what it has to say."""
        deadline = time.monotonic() + FLUSH_WITHIN_S
        while (self._pending or self._tasks or self._is_sending) and (
            time.monotonic() < deadline and self._pid == os.getpid()
        ):
            time.sleep(0.005)

    def _serve(self, started: threading.Event) -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        self._loop, self._ready = loop, asyncio.Event()
        started.set()
        loop.run_until_complete(self._forward(self._ready))

    async def _forward(self, ready: asyncio.Event) -> None:
        while True:
            await ready.wait()
            ready.clear()
            with self._lock:
                hints, self._pending = self._pending, {}
                self._is_nudged = False
                tasks, self._tasks = self._tasks, set()
                self._is_sending = True
            try:
                if time.monotonic() < self._quiet_until:
                    continue
                if _WAKE in hints:
                    # A start waits for this one; people can wait for theirs.
                    hints = {_WAKE: hints.pop(_WAKE), **hints}
                for task in tasks:
                    # Blocks this thread alone.
                    current_app.send_task(task, expires=60, retry=False, ignore_result=True)
                await asyncio.wait_for(_send(hints), 5)
            except Exception as error:
                logger.warning("hints are not delivered, pages poll instead: %s", error)
                self._quiet_until = time.monotonic() + QUIET_AFTER_FAILURE_S
            finally:
                self._is_sending = False
            await asyncio.sleep(COALESCE_S)


_publisher = _Publisher()


async def _send(hints: dict[tuple[str, str], str | int]) -> None:
    layer = get_channel_layer()
    if layer is None or not hints:
        return
    told = [
        (group_name(topic), {"type": "hint", "topic": topic, "kind": kind, "ref": ref})
        for (topic, kind), ref in hints.items()
    ]
    if len(told) > 1 and isinstance(layer, RedisPubSubChannelLayer):
        await _send_together(layer, told)
        return
    for group, message in told:
        await layer.group_send(group, message)


async def _send_together(
    layer: RedisPubSubChannelLayer, told: list[tuple[str, dict[str, Any]]]
) -> None:
    """Equals `group_send` for each, in this order, with one wait for the broker instead of many."""
    groups = [layer._get_group_channel_name(group) for group, _ in told]
    shards = [layer._get_shard(group) for group in groups]
    for shard in dict.fromkeys(shards):
        async with shard._lock:
            shard._ensure_redis()
            pipe = shard._redis.pipeline(transaction=False)
            for (_, message), group, its in zip(told, groups, shards, strict=True):
                if its is shard:
                    pipe.publish(group, layer.serialize(message))
            await pipe.execute()


async def wait_for_node(
    node_id: int,
    is_due: Callable[[], Awaitable[bool]],
    timeout_s: float,
    looks_again: Callable[[], Awaitable[bool]],
    *,
    looked_at: int,
) -> None:
    """As `wait_for_topic`, for what a node should do: it will soon ask again."""
    await wait_for_topic(
        f"node:{node_id}", is_due, timeout_s, looks_again, looked_at=looked_at, keeps=True
    )


async def wait_for_topic(
    topic: str,
    is_due: Callable[[], Awaitable[bool]],
    timeout_s: float,
    looks_again: Callable[[], Awaitable[bool]] | None = None,
    *,
    looked_at: int = 0,
    keeps: bool = False,
) -> None:
    """Return when `is_due()` says so or after `timeout_s`; hints only make it quicker.

    `is_due` is asked once after subscribing, so a hint sent before is not missed, then at every
    hint and at least every two seconds. `looks_again` may answer instead where no hint has come:
    its word may be a moment old. `looked_at`: the caller saw after this `moment` that it is not
    due; if the subscription stood then, and was quiet since, it is not asked at once. `keeps`: the
    subscription stays for whoever waits next.
    """
    looks_again = looks_again or is_due
    deadline = time.monotonic() + timeout_s
    try:
        async with listening(topic, keeps=keeps) as ear:
            seen = looked_at
            if not ear.is_quiet_since(looked_at):
                seen = moment()
                if await is_due():
                    return
            while (left := deadline - time.monotonic()) > 0:
                if await ear.wait(seen, min(left, _publisher.recheck_s())):
                    seen = moment()
                    if await is_due():
                        return
                elif await looks_again():
                    return
    except HintsLost as error:
        logger.warning("no hints for %s, looking every half second: %s", topic, error)
        while time.monotonic() < deadline and not await looks_again():
            await asyncio.sleep(min(RECHECK_WITHOUT_BROKER_S, timeout_s))
