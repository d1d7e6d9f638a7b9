"""What is answered where even the page for errors failed, or nothing of Django was reached.

Without it uvicorn says "Internal Server Error" and 500 of a server that only has no file or thread
left for a moment. These answers need neither: they are made of what is in memory.
"""

from __future__ import annotations

import codecs
import logging
from typing import Any

from portal.outages import is_database_away, is_exhausted
from portal.serving.answering import Answer

logger = logging.getLogger(__name__)
# Django logs each answer that went wrong with it. A module of its own, it is not found while no
# file can be opened, which is when it is first wanted.
codecs.lookup("unicode_escape")

_API = "/api/"
_WORDS = {
    503: ("server_busy", "The server is busy. Try again in a moment."),
    500: (
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
        answer = Answer(send)
        try:
            await self._application(scope, receive, answer)
        except Exception as error:
            if answer.has_begun:
                raise
            status, path = 503 if _is_passing(error) else 500, scope["path"]
            if status == 503:
                logger.error("%s is to be asked for again: %s", path, error)
            else:
                logger.exception("%s was answered without a page of its own", path)
            await _say(answer, status, is_api=path.startswith(_API))


def _is_passing(error: BaseException | None) -> bool:
    """Whether this, or what it was raised in the handling of, passes by itself."""
    seen = 0
    while error is not None and seen < 100:
        if is_exhausted(error) or is_database_away(error):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


async def _say(answer: Answer, status: int, *, is_api: bool) -> None:
    code, detail = _WORDS[status]
    headers = [(b"retry-after", b"2")] if status == 503 else []
    if is_api:
        await answer.problem(status, code, detail, *headers)
    else:
        await answer.whole(status, b"text/plain; charset=utf-8", f"{detail}\n", *headers)
