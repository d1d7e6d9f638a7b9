"""GETs that may be held until there is news, without holding a thread or a connection.

A view that has nothing new returns its reply `on_hold`; the reply is then made anew at every hint
on the topic, and at least every two seconds, until it is no longer on hold or time is up. Each
time the whole view runs, so a right that was taken away ends the wait. As that costs what a call
costs and is counted as none, of one person's calls so many are held at once and no more.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from portal.previews import look_again
from scheduler import events

MAX_WAIT_S = 60
# On a request: the limit of calls knows it.
COUNTED = "is_counted"
# Of one person in one process; the next one is answered at once, as if it had not asked to wait.
MOST_HELD = 50
# For the schema.
HELD = f"Beyond {MOST_HELD} held calls of yours the next is answered at once."
_LOOK_EVERY_S = 1.0
Standing = TypeVar("Standing")


@dataclass(frozen=True, slots=True)
class Hold:
    """What to wait for, and for how long at most."""

    topic: str
    timeout_s: float


class HeldCalls:
    """How many calls of each person are held."""

    def __init__(self) -> None:
        self._held: Counter[int] = Counter()

    @contextmanager
    def one(self, person_id: int) -> Iterator[bool]:
        """A call of this person; whether it may be held in the block."""
        may_hold = self._held[person_id] < MOST_HELD
        self._held[person_id] += may_hold
        try:
            yield may_hold
        finally:
            self._held -= Counter({person_id: int(may_hold)})


_held_calls = HeldCalls()


class HeldNodes(Generic[Standing]):
    """What the held calls of nodes watch, read for all of them at once.

    Hundreds of held calls look again every two seconds, in case a hint was lost; they share one
    look a second.
    """

    def __init__(self) -> None:
        self._held: Counter[int] = Counter()
        self._standings: dict[int, Standing] = {}
        self._read_at = 0.0
        self._look: asyncio.Future[None] | None = None

    @contextmanager
    def one(self, node_id: int) -> Iterator[None]:
        """A call of this node is held in the block."""
        self._held[node_id] += 1
        try:
            yield
        finally:
            self._held -= Counter({node_id: 1})

    async def standing(
        self, node_id: int, read: Callable[[list[int]], Awaitable[dict[int, Standing]]]
    ) -> Standing | None:
        """The node's as it was within the last second; None for one that is gone."""
        if self._is_old(node_id) and self._look is not None:
            # Whoever asks meanwhile takes what the first one finds.
            await asyncio.shield(self._look)
        if self._is_old(node_id):
            if self._look is None:
                self._look = asyncio.ensure_future(self._read(read))
            await asyncio.shield(self._look)
        return self._standings.get(node_id)

    def _is_old(self, node_id: int) -> bool:
        is_old = time.monotonic() - self._read_at > _LOOK_EVERY_S
        return is_old or node_id not in self._standings

    async def _read(self, read: Callable[[list[int]], Awaitable[dict[int, Standing]]]) -> None:
        began = time.monotonic()
        try:
            self._standings = await read(list(self._held))
            self._read_at = began
        finally:
            self._look = None


def on_hold(reply: Any, topic: str, timeout_s: float) -> Any:
    """Mark a reply as "nothing new yet"."""
    if timeout_s > 0:
        reply.hold = Hold(topic, timeout_s)
    return reply


def give_back_connections() -> None:
    """A held call must not keep a pooled connection busy; one inside a transaction stays."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def holding(view: Callable[..., HttpResponseBase]) -> Callable[..., Any]:
    """An async view around a REST framework view whose replies may be on hold."""

    def once(request: HttpRequest, kwargs: dict[str, Any]) -> HttpResponseBase:
        try:
            return view(request, **kwargs)
        finally:
            give_back_connections()

    call = sync_to_async(once)

    @csrf_exempt  # the framework's session authentication checks it
    async def held(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        reply = await call(request, kwargs)
        hold: Hold | None = getattr(reply, "hold", None)
        if hold is None:
            return reply

        async def is_due() -> bool:
            nonlocal reply
            look_again(request)
            # However often it is made anew, it is one call.
            setattr(request, COUNTED, True)
            reply = await call(request, kwargs)
            return getattr(reply, "hold", None) is None

        # The framework has put the caller there, also of a call with a token.
        with _held_calls.one(request.user.pk or 0) as may_hold:
            if may_hold:
                await events.wait_for_topic(hold.topic, is_due, hold.timeout_s)
        return reply

    # How the schema finds the view behind it.
    held.cls = view.cls  # type: ignore[attr-defined]
    held.initkwargs = view.initkwargs  # type: ignore[attr-defined]
    return held
