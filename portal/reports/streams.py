"""Answers that are made while they are sent, by either kind of server.

Django reads a plain iterator to its end before an asynchronous server sends the first byte of it;
a report of a million lines must not lie in memory so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse


class StreamedFile(StreamingHttpResponse):
    """Blocks of a file, taken one by one in the request's own thread."""

    def __init__(self, blocks: Iterator[bytes], *, name: str, content_type: str) -> None:
        super().__init__(blocks, content_type=content_type)
        self["Content-Disposition"] = f'attachment; filename="{name}"'
        self["Cache-Control"] = "no-store"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = iter(self)
        while (block := await sync_to_async(_next)(parts)) is not None:
            yield block


def _next(blocks: Iterator[bytes]) -> bytes | None:
    return next(blocks, None)
