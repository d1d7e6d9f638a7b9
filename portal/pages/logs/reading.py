"""A job's log: the page, its lines for scrolling, and the whole of it as a file."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.errors import DomainError, Invalid, NotFound
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from portal.pages.logs.window import WINDOW, LogAsk, check_looks, log_view, read_ask
from portal.reports.streams import StreamedFile
from scheduler.selectors.jobs import get_visible_job
from scheduler.selectors.logs import check_reader, get_readable_placement, stream_log
from scheduler.selectors.one_job.header import job_with_header
from scheduler.selectors.one_job.tries import stream_among

# `q`, `mode`, `ts`, `wrap` and `size` are read by the script.
PARAMETERS = ("attempt", "rank", "from_line", "before", "count", "q", "mode", "ts", "wrap", "size")
_KINDS = ("", "raw", "gz")


@page("GET")
def job_logs(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The log on its own page; without a script the pages are turned by links."""
    viewer = viewer_of(request)
    header = job_with_header(viewer, pk, tries=True)
    job, attempts = header.job, header.attempts
    check_reader(viewer, job)
    check_looks(request)
    problems = []
    try:
        ask = read_ask(request)
    except Invalid as refused:
        ask, problems = LogAsk(None, 0, None, WINDOW), [refused.detail]
    try:
        placement = stream_among(job, attempts, ask.attempt, ask.rank)
    except NotFound:
        problems.append("This job has no such attempt or rank; this is the latest attempt.")
        ask = LogAsk(None, 0, None, WINDOW)
        placement = stream_among(job, attempts, None, 0)
    context = job_frame(viewer, header) | {
        "tab": "logs",
        "now": timezone.now(),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "attempts": attempts,
        "log": log_view(job, placement, ask),
    }
    return render(request, "jobs/logs.html", context)


@page("GET")
def job_log_lines(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Rows of a window for the script that scrolls; where it stands is told in headers.

    `?whole=1`: one line without a fold.
    """
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)
    try:
        ask = read_ask(request)
    except Invalid as refused:
        return refusal(refused)
    placement = get_readable_placement(viewer, job, ask.attempt, ask.rank)
    log = log_view(job, placement, ask, gaps=False)
    response = HttpResponse(log.rows)
    response["X-First-Line"] = str(log.first_line)
    response["X-Next-Line"] = str(log.next_line)
    response["X-Total-Lines"] = str(log.total_lines)
    response["X-Log-Size"] = str(log.size)
    response["X-Log-Complete"] = "true" if log.complete else "false"
    response["Cache-Control"] = "no-store"
    return response


def refusal(
    refused: DomainError, status: int = 400, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """What is wrong with a question of a script, as text."""
    plain = "text/plain; charset=utf-8"
    return HttpResponse(refused.detail, status=status, content_type=plain, headers=headers)


@page("GET")
def job_log_download(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Every byte the rank wrote, unchanged: a file, `?kind=gz` the same packed, `?kind=raw` to
    read in the browser, as text and never as a page."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)
    kind = request.GET.get("kind", "")
    try:
        if kind not in _KINDS:
            raise Invalid("kind: write raw or gz, or leave it out.", field="kind")
        ask = read_ask(request)
    except Invalid as refused:
        return refusal(refused)
    placement = get_readable_placement(viewer, job, ask.attempt, ask.rank)
    if placement is None:
        raise NotFound("Nothing was placed yet.")
    if placement.log_pruned_at is not None:
        raise NotFound("This log is no longer kept: its project's retention is over.")
    pieces: Iterable[bytes] = stream_log(placement)
    name = f"job-{job.pk}-attempt-{placement.attempt.number}-rank-{placement.rank}.log"
    media = "text/plain; charset=utf-8"
    if kind == "gz":
        pieces, name, media = _packed(pieces), f"{name}.gz", "application/gzip"
    response = StreamedFile(pieces, name=name, content_type=media)
    if kind == "raw":
        response["Content-Disposition"] = f'inline; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


def _packed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same as gzip, a piece at a time; the fast level, for the network is no bottleneck."""
    packer = zlib.compressobj(level=1, wbits=zlib.MAX_WBITS | 16)
    for piece in pieces:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()
