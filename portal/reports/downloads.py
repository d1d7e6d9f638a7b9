"""A stored file as a download: never as a page, whatever is in it."""

from __future__ import annotations

from urllib.parse import quote

from django.http import StreamingHttpResponse

from scheduler.models import OutputFile
from scheduler.services.kept.outputs import read_parts


def as_download(row: OutputFile, offset: int = 0) -> StreamingHttpResponse:
    """The bytes from `offset` on; who asks was checked before."""
    offset = min(offset, row.size)
    response = StreamingHttpResponse(
        read_parts(row, offset) if offset < row.size else iter(()),
        content_type="application/octet-stream",
    )
    name = row.name.rpartition("/")[2]
    plain = "".join(one if one.isascii() and one not in '"\\' else "_" for one in name)
    response["Content-Disposition"] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    )
    response["Content-Length"] = str(row.size - offset)
    response["X-Content-SHA256"] = row.digest
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response["Cache-Control"] = "no-store"
    return response
