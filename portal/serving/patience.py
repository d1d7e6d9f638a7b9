"""Who sends a request drop by drop is let go with a 408, who sends one without end with a 413.

nginx does so where it stands in front; on one machine nobody else does, and Django reads a body
whole, to disk if it is large, before it asks who sends it. Sessions are not measured here: what
people send to their own programs may be as large and as slow as they like.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from portal.serving.answering import Answer

# As long as in `deploy/nginx.conf`: for the head of a request, and for the next piece of its body.
HEAD_S, PIECE_S = 15.0, 20.0
# A body of the largest size, over the slowest line that a node is likely to have.
WHOLE_S = 120.0
# As in `deploy/nginx.conf`; what takes less says so itself.
MOST_BYTES = 4 * 1024 * 1024
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class PatientProtocol(HttpToolsProtocol):
    """Uvicorn's own, with an end to waiting for a head; its `--http` names it.

    A connection on which nothing came is closed without a word, as browsers open some for later.
    """

    _timer: asyncio.TimerHandle | None = None
    _has_begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there; a request has to follow."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """The first byte of a request, perhaps not the first one on this connection."""
        super().on_message_begin()
        self._has_begun = True
        self._wait()

    def on_headers_complete(self) -> None:
        """From here on the application waits."""
        self._wait_no_more()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_S, self._let_go)

    def _wait_no_more(self) -> None:
        self._has_begun = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _let_go(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        # Nothing is put into the middle of an answer that is still on its way.
        if self._has_begun and (self.cycle is None or self.cycle.response_complete):
            self.transport.write(_TIMEOUT)
        self.transport.close()


class _LetGo(Exception):
    """The body is not waited for any longer."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


class Patience:
    """Around an application: a body of `MOST_BYTES`, each piece of it within `PIECE_S`."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        body, answer = _Body(receive, _declared(scope)), Answer(send)
        try:
            await self._application(scope, body.receive, answer)
        except _LetGo as refused:
            if not answer.has_begun:
                # Whoever sends such a body is no browser.
                closes = (b"connection", b"close")
                await answer.problem(refused.status, refused.code, refused.detail, closes)


class _Body:
    """What is received of a body, counted; behind its end nothing is."""

    def __init__(self, receive: Any, declared: int) -> None:
        self._receive = receive
        self._size, self._declared, self._until = 0, declared, 0.0

    async def receive(self) -> Any:
        """The next piece of it; raises `_LetGo`."""
        if self._until < 0:
            return await self._receive()
        now = asyncio.get_running_loop().time()
        self._until = self._until or now + WHOLE_S
        if self._declared > MOST_BYTES:
            raise _too_large()
        try:
            async with asyncio.timeout(min(PIECE_S, self._until - now)):
                message = await self._receive()
        except TimeoutError:
            raise _too_slow() from None
        self._size += len(message.get("body", b""))
        if self._size > MOST_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            self._until = -1.0
        return message


def _declared(scope: Any) -> int:
    for name, value in scope.get("headers", ()):
        if name == b"content-length":
            # The server has refused what is no number.
            return int(value)
    return 0


def _too_large() -> _LetGo:
    most = MOST_BYTES // 2**20
    words = f"The body is larger than {most} MiB, the most that is read. Send less at once."
    return _LetGo(413, "too_large", words)


def _too_slow() -> _LetGo:
    words = f"The body did not arrive: nothing came for {PIECE_S:.0f} s. Send the request again."
    return _LetGo(408, "too_slow", words)
