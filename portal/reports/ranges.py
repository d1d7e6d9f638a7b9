"""Parts of a file over HTTP, so that a download that broke off goes on (RFC 9110, chapter 14)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from portal.reports.streams import StreamedFile

# One range of bytes. Several in one answer are worth no code: they may be answered with the whole.
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def asked_range(header: str, size: int) -> tuple[int, int] | None:
    """First byte and the one behind the last; None for the whole.

    Raises ValueError where no byte of the file is in it.
    """
    found = _RANGE.fullmatch(header.replace(" ", ""))
    if found is None or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        if int(last) == 0 or size == 0:
            raise ValueError(header)
        return max(0, size - int(last)), size
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise ValueError(header)
    return int(first), min(size, int(last) + 1) if last else size


def ranged_file(
    request: HttpRequest,
    read: Callable[[int, int], Iterator[bytes]],
    *,
    size: int,
    digest: str,
    name: str,
    content_type: str,
) -> HttpResponseBase:
    """A file that never changes, or the part of it that is asked for.

    The digest is its tag: who comes back with another one in `If-Range` gets the whole.
    """
    tag = f'"{digest}"'
    part = None
    wanted = request.headers.get("Range", "")
    if wanted and request.headers.get("If-Range", tag) == tag:
        try:
            part = asked_range(wanted, size)
        except ValueError:
            answer = HttpResponse(status=416)
            answer["Content-Range"] = f"bytes */{size}"
            return answer
    start, end = part or (0, size)
    blocks = iter(()) if request.method == "HEAD" else read(start, end)
    response = StreamedFile(blocks, name=name, content_type=content_type)
    if part is not None:
        response.status_code = 206
        response["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    response["Content-Length"] = str(end - start)
    response["Accept-Ranges"] = "bytes"
    response["ETag"] = tag
    response["X-Content-SHA256"] = digest
    return response
