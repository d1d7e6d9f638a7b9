"""Answers that are made while they are sent, by either kind of server.

Django reads a plain iterator to its end before an asynchronous server sends the first byte of it;
a report of a million lines, or a log of gigabytes, must not lie in memory so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

from portal.reports.exports import csv_lines

# Each block costs a change of threads.
_LINES = 200


class StreamedFile(StreamingHttpResponse):
    """Blocks of a file, taken one by one in the request's own thread."""

    def __init__(self, blocks: Iterable[bytes | str], *, name: str, content_type: str) -> None:
        super().__init__(blocks, content_type=content_type)
        self["Content-Disposition"] = f'attachment; filename="{name}"'
        self["Cache-Control"] = "no-store"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = iter(self)
        while (block := await sync_to_async(_next)(parts)) is not None:
            yield block


def csv_file(header: Sequence[str], rows: Iterable[Sequence[object]], *, name: str) -> StreamedFile:
    """A table as `csv_lines` writes it, some lines at a time."""
    response = StreamedFile(
        _some_lines(csv_lines(header, rows)), name=name, content_type="text/csv; charset=utf-8"
    )
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _some_lines(lines: Iterator[str]) -> Iterator[str]:
    while block := "".join(islice(lines, _LINES)):
        yield block


def _next(blocks: Iterator[bytes]) -> bytes | None:
    return next(blocks, None)
