"""The door for nodes: their views without what Django does around the request of a browser."""

from __future__ import annotations

import asyncio
import io
from types import TracebackType
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.urls import URLResolver
from django.urls.exceptions import Resolver404
from django.urls.resolvers import RegexPattern

from portal.api.nodes.calls import answer
from scheduler.wire.messages import Refusal

PREFIX = "/api/agent/v1/"
# Who is answered sooner is not watched: most calls are, and watching costs a task.
_WATCHED_AFTER_S = 0.2


class NodeDoor:
    """Equals Django's handler without middleware, for the views of `portal/api/nodes/urls.py`.

    Those answer every exception themselves, and give back threads and connections as they go: no
    signal has to tell of a request's beginning and end, which takes a thread each. A call whose
    node has left is broken off. All other paths lead `elsewhere`.
    """

    def __init__(self, elsewhere: Any) -> None:
        self._elsewhere = elsewhere
        self._routes = URLResolver(RegexPattern(f"^{PREFIX}"), "portal.api.nodes.urls")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One call."""
        try:
            found = self._routes.resolve(scope["path"])
        except Resolver404:
            await self._elsewhere(scope, receive, send)
            return
        body = await _whole(receive)
        if body is None:
            return
        try:
            request = ASGIRequest(scope, io.BytesIO(body))
        except UnicodeDecodeError:
            words = "The address has characters that are not UTF-8."
            await _send(send, answer(Refusal("malformed", words), 400))
            return
        with _Watched(receive):
            await _send(send, await found.func(request, *found.args, **found.kwargs))


class _Watched:
    """The block ends, without a word, when the caller leaves meanwhile."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._listener: asyncio.Future[Any] | None = None

    def __enter__(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._task = task
        self._timer = loop.call_later(_WATCHED_AFTER_S, self._listen)

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> bool:
        self._timer.cancel()
        listener, self._listener = self._listener, None
        if listener is None:
            return False
        has_left = listener.done() and not listener.cancelled()
        listener.cancel()
        if has_left and kind is asyncio.CancelledError:
            self._task.uncancel()
            return True
        return False

    def _listen(self) -> None:
        # Behind the body nothing comes but that the caller has left.
        self._listener = asyncio.ensure_future(self._receive())
        self._listener.add_done_callback(self._leave)

    def _leave(self, listener: asyncio.Future[Any]) -> None:
        if self._listener is listener:
            self._task.cancel()


async def _whole(receive: Any) -> bytes | None:
    """The body; None when the caller has left before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _send(send: Any, told: HttpResponse) -> None:
    body = told.content
    headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in told.items()]
    headers.append((b"Content-Length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": told.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
