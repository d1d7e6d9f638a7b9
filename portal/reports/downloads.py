"""A stored file as a download: never as a page, whatever is in it."""

from __future__ import annotations

from urllib.parse import quote

from portal.reports.streams import StreamedFile
from scheduler.models import OutputFile
from scheduler.services.kept.outputs import read_parts


def as_download(row: OutputFile, offset: int = 0) -> StreamedFile:
    """The bytes from `offset` on; who asks was checked before."""
    offset = min(offset, row.size)
    blocks = read_parts(row, offset) if offset < row.size else iter(())
    name = row.name.rpartition("/")[2]
    plain = "".join(one if one.isascii() and one not in '"\\' else "_" for one in name)
    response = StreamedFile(blocks, name=plain, content_type="application/octet-stream")
    response["Content-Disposition"] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    )
    response["Content-Length"] = str(row.size - offset)
    response["X-Content-SHA256"] = row.digest
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response
