"""Django's ASGI handler on threads that stay; nodes have a door of their own.

Django gives each request a thread of its own and, on SQLite, a connection: opening both and
reading the schema takes longer than most of our views. Here threads are kept and lent, one
request at a time to each, so the promise views rely on holds as before: all of a request's
synchronous work is done by one thread, and by no other request's while it lasts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.core.handlers.asgi import ASGIHandler

from portal.serving.patience import Patience
from scheduler.collecting import settle

# More are made when more is going on at once, and not kept.
MOST_KEPT = 32
# Calls of nodes that are worked on at once: no more than threads that are kept, and so many that
# some wait for the disk or the database while others compute.
NODE_CALLS = 8
# After so many requests the collector sets aside what is loaded: pages and templates load when they
# are first asked for, and without it each full collection is 0.2 s in the midst of somebody's page.
SETTLED_AFTER = frozenset({100, 1_000, 10_000})


class Lanes:
    """Threads to lend, of one event loop; the one that rested longest first."""

    def __init__(self) -> None:
        self._free: deque[ThreadSensitiveContext] = deque()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Let `sync_to_async` use one thread in this block, which is nobody else's meanwhile."""
        lane = self._free.popleft() if self._free else ThreadSensitiveContext()
        token = SyncToAsync.thread_sensitive_context.set(lane)
        try:
            yield
        finally:
            SyncToAsync.thread_sensitive_context.reset(token)
            if len(self._free) < MOST_KEPT:
                self._free.append(lane)
            elif executor := SyncToAsync.context_to_thread_executor.pop(lane, None):
                executor.shutdown(wait=False)


class Turns:
    """At most so many at once; the others wait in a row without a thread, in the order they came.

    Hundreds of nodes may call in one moment. A thread and a connection for each would stand before
    the same database, and all of them would have to be opened and closed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._of_loop = WeakKeyDictionary()

    def one(self) -> asyncio.Semaphore:
        """`async with` it: a turn."""
        loop = asyncio.get_running_loop()
        if loop not in self._of_loop:
            self._of_loop[loop] = asyncio.Semaphore(self._most)
        return self._of_loop[loop]


lanes = Lanes()
node_turns = Turns(NODE_CALLS)


class PortalDoor(ASGIHandler):
    """Pages and API: a lane for each request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        with lanes.one():
            await self.handle(scope, receive, send)


class Doors:
    """Which door a path leads to."""

    def __init__(self, prefix: str, nodes: Callable[[Any], Any]) -> None:
        """Paths that begin so are for `nodes`, which hands on what is not."""
        portal = PortalDoor()
        self._prefix, self._nodes = prefix, Patience(nodes(portal))
        self._portal, self._answered = Patience(portal), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["path"].startswith(self._prefix):
            await self._nodes(scope, receive, send)
            return
        await self._portal(scope, receive, send)
        self._answered += 1
        if self._answered in SETTLED_AFTER:
            settle()
