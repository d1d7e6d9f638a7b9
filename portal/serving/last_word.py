"""What is answered where even the page for errors failed, or nothing of Django was reached.

Without it uvicorn says "Internal Server Error" and 500 of a server that only has no file or thread
left for a moment. These answers need neither: they are made of what is in memory.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from portal.outages import is_database_away, is_exhausted

logger = logging.getLogger(__name__)

_API = "/api/"
_WORDS = {
    503: ("Service Unavailable", "server_busy", "The server is busy. Try again in a moment."),
    500: (
        "Internal Server Error",
        "server_error",
        "Something broke on our side. Try again; if that does not help, tell an operator.",
    ),
}


class LastWord:
    """Around an application: whatever it raises before it answers becomes 503 or 500."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request; raises what came after an answer had begun."""
        has_answered = False

        async def answer(message: Any) -> None:
            nonlocal has_answered
            has_answered = True
            await send(message)

        try:
            await self._application(scope, receive, answer)
        except Exception as error:
            if has_answered:
                raise
            status, path = 503 if _is_passing(error) else 500, scope["path"]
            if status == 503:
                logger.error("%s is to be asked for again: %s", path, error)
            else:
                logger.exception("%s was answered without a page of its own", path)
            await _say(send, status, is_api=path.startswith(_API))


def _is_passing(error: BaseException | None) -> bool:
    """Whether this, or what it was raised in the handling of, passes by itself."""
    seen = 0
    while error is not None and seen < 100:
        if is_exhausted(error) or is_database_away(error):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


async def _say(send: Any, status: int, *, is_api: bool) -> None:
    title, code, detail = _WORDS[status]
    if is_api:
        kind = b"application/problem+json"
        document = {"type": "about:blank", "title": title, "status": status}
        body = json.dumps({**document, "code": code, "detail": detail}).encode()
    else:
        kind, body = b"text/plain; charset=utf-8", f"{detail}\n".encode()
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        *([(b"retry-after", b"2")] if status == 503 else ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
