"""What jobs left, as a download or as text: never as a page, whatever is in it."""

from __future__ import annotations

from urllib.parse import quote

from django.http import HttpResponse

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


def as_patch(patch: str, commit: str, job: int, attempt: int) -> HttpResponse:
    """Local changes of an attempt's code, to read or for `git apply` at that commit."""
    response = HttpResponse(patch, content_type="text/plain; charset=utf-8")
    name = f"job-{job}-attempt-{attempt}.patch"
    response["Content-Disposition"] = f'inline; filename="{name}"'
    response["Cache-Control"] = "no-store"
    response["X-Code-Commit"] = commit
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response
