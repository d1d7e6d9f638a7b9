"""Questions to cards, each on a thread of its own: a driver that hangs holds up nobody who asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

T = TypeVar("T")

# Drivers answer within milliseconds. A node that says nothing for long would lose its jobs.
_PATIENCE_S = 1.0
# Cards that reset a part of themselves may say nothing for some seconds.
SILENT_S = 30.0


class Silent(Exception):
    """No answer yet, to this question or to an earlier one."""


class Asker:
    """Asks cards, by their UUID, and the driver itself, by ""; each one thing at a time.

    Thread-safe.
    """

    def __init__(self, patience_s: float = _PATIENCE_S, silent_s: float = SILENT_S) -> None:
        self._patience_s = patience_s
        self._silent_s = silent_s
        self._changes = threading.Condition()
        # Monotonic: when each was asked that has not answered yet, and the last answer of a card.
        self._asked: dict[str, float] = {}
        self._answered_at = time.monotonic()

    def ask(self, uuid: str, question: Callable[[], T]) -> T:
        """The answer, or what `question` raises; raises Silent, and it may still be at work then.

        Waits its turn, but not for one that hangs already.
        """
        with self._changes:
            while (since := self._asked.get(uuid)) is not None:
                left_s = since + self._patience_s - time.monotonic()
                if left_s <= 0:
                    raise Silent(uuid)
                self._changes.wait(left_s)
            self._asked[uuid] = time.monotonic()
        answer: Future[T] = Future()
        work = partial(self._put, uuid, question, answer)
        threading.Thread(target=work, name="gpu", daemon=True).start()
        try:
            return answer.result(self._patience_s)
        except TimeoutError:
            raise Silent(uuid) from None

    def _put(self, uuid: str, question: Callable[[], T], answer: Future[T]) -> None:
        try:
            told = question()
        except Exception as problem:
            self._note_answer(uuid)
            answer.set_exception(problem)
        else:
            self._note_answer(uuid)
            answer.set_result(told)

    def _note_answer(self, uuid: str) -> None:
        with self._changes:
            del self._asked[uuid]
            if uuid:
                self._answered_at = time.monotonic()
            self._changes.notify_all()

    def silent(self) -> tuple[str, ...]:
        """Cards that have said nothing for long, and are to blame for it.

        Where no card has answered since, the driver may keep all waiting for the first one asked.
        """
        with self._changes:
            asked = {uuid: at for uuid, at in self._asked.items() if uuid}
            answered_at, now = self._answered_at, time.monotonic()
        first = min(asked.values(), default=now)
        return tuple(
            uuid
            for uuid, at in asked.items()
            if now - at >= self._silent_s and (at < answered_at or at == first)
        )
