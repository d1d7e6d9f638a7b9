"""Work for many callers in one go: who waits for a turn is taken along with all who wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(slots=True)
class _Line(Generic[Item, Found]):
    """Who waits in one event loop, and who works."""

    waiting: deque[tuple[Item, asyncio.Future[Found]]] = field(default_factory=deque)
    at_work: set[asyncio.Task[None]] = field(default_factory=set)


class Together(Generic[Item, Found]):
    """Equals `work` for each caller alone.

    Nobody waits to be joined by others: who finds a turn free begins at once. `work` answers each
    item, with an exception where that is what its caller gets; what it raises is for all of them.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], Awaitable[list[Found | Exception]]],
        *,
        turns: int,
        most: int,
    ) -> None:
        """`turns` at once, of `most` items each."""
        self._work, self._turns, self._most = work, turns, most
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line[Item, Found]]
        self._of_loop = WeakKeyDictionary()

    async def ask(self, item: Item) -> Found:
        """What `work` finds for this item."""
        loop = asyncio.get_running_loop()
        line = self._of_loop.setdefault(loop, _Line())
        found: asyncio.Future[Found] = loop.create_future()
        line.waiting.append((item, found))
        if len(line.at_work) < self._turns:
            # A task of its own: a caller who leaves takes nobody's answer along.
            line.at_work.add(loop.create_task(self._serve(line)))
        return await found

    async def _serve(self, line: _Line[Item, Found]) -> None:
        try:
            while asked := self._next(line):
                try:
                    told = await self._work([item for item, _ in asked])
                except Exception as error:
                    told = [error] * len(asked)
                for (_, found), answer in zip(asked, told, strict=True):
                    _tell(found, answer)
        finally:
            task = asyncio.current_task()
            assert task is not None
            line.at_work.discard(task)

    def _next(self, line: _Line[Item, Found]) -> list[tuple[Item, asyncio.Future[Found]]]:
        """Those who waited longest, without who has left meanwhile."""
        taken: list[tuple[Item, asyncio.Future[Found]]] = []
        while line.waiting and len(taken) < self._most:
            item, found = line.waiting.popleft()
            if not found.done():
                taken.append((item, found))
        return taken


def _tell(found: asyncio.Future[Found], answer: Found | Exception) -> None:
    if found.done():
        return  # its caller has left
    if isinstance(answer, Exception):
        found.set_exception(answer)
    else:
        found.set_result(answer)
