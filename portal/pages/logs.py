"""A job's log: the window, its lines for scrolling, and the whole of it as a file."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from accounts.errors import Invalid, NotFound
from accounts.models import User
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from portal.reports.log_rows import log_rows
from portal.terminal import render_lines
from scheduler.models import Job, Placement
from scheduler.selectors.jobs import attempts_of, get_visible_job
from scheduler.selectors.logs import get_readable_placement, read_lines, stream_log

WINDOW = 500
EMBEDDED = 60
MAX_NUMBER = 2**53
PARAMETERS = ("attempt", "rank", "from_line", "count")


@dataclass(frozen=True, slots=True)
class LogAsk:
    """What of a log is asked for; None means the default: latest attempt, the end of the log."""

    attempt: int | None
    rank: int
    from_line: int | None
    count: int


def read_ask(request: HttpRequest, count: int = WINDOW) -> LogAsk:
    """The parameters of a log URL; raises Invalid that names the wrong one."""
    attempt = _number(request, "attempt", low=1)
    rank = _number(request, "rank", low=0)
    from_line = _number(request, "from_line", low=1)
    wanted = _number(request, "count", low=1, high=WINDOW)
    return LogAsk(attempt, rank or 0, from_line, wanted or count)


def _number(request: HttpRequest, name: str, *, low: int, high: int = MAX_NUMBER) -> int | None:
    text = request.GET.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and low <= int(text) <= high):
        raise Invalid(f"{name}: write a whole number from {low} to {high}.", field=name)
    return int(text)


@dataclass(frozen=True, slots=True)
class LogView:
    """A window of a log as components/_log.html shows it; `placement` None before a placement."""

    placement: Placement | None
    rows: SafeString
    first_line: int
    next_line: int
    total_lines: int
    size: int
    complete: bool
    follow: bool
    topic: str
    lines_url: str
    download_url: str
    previous_url: str
    next_url: str


def log_view(viewer: User, job: Job, ask: LogAsk) -> LogView:
    """The window that is asked for; raises Forbidden or NotFound as the selector does."""
    placement = get_readable_placement(viewer, job, ask.attempt, ask.rank)
    if placement is None:
        return LogView(None, SafeString(""), 1, 1, 0, 0, False, False, "", "", "", "", "")
    first = ask.from_line or max(1, placement.log_lines - ask.count + 2)
    window = read_lines(placement, from_line=first, count=ask.count)
    # Colours do not carry over from lines that are not in the window.
    lines = render_lines(window.raw, window.first_line).lines
    stream = {"attempt": placement.attempt.number, "rank": placement.rank}

    def url(name: str, **more: int) -> str:
        return f"{reverse(name, args=[job.pk])}?{urlencode(stream | more)}"

    earlier = max(1, window.first_line - ask.count)
    return LogView(
        placement,
        log_rows(lines),
        window.first_line,
        window.next_line,
        max(window.total_lines, window.next_line - 1),
        window.size,
        window.is_complete,
        ask.from_line is None and not window.is_complete,
        f"log:{placement.attempt_id}:{placement.rank}",
        url("jobs:log_lines"),
        url("jobs:log_download"),
        url("jobs:logs", from_line=earlier) if window.first_line > 1 else "",
        url("jobs:logs", from_line=window.next_line)
        if window.next_line <= window.total_lines
        else "",
    )


@page("GET")
def job_logs(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The log on its own page; without a script the pages are turned by links."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)
    problems = []
    try:
        ask = read_ask(request)
    except Invalid as refused:
        ask, problems = LogAsk(None, 0, None, WINDOW), [refused.detail]
    try:
        log = log_view(viewer, job, ask)
    except NotFound:
        problems.append("This job has no such attempt or rank; this is the latest attempt.")
        log = log_view(viewer, job, LogAsk(None, 0, None, WINDOW))
    context = job_frame(viewer, job) | {
        "tab": "logs",
        "now": timezone.now(),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "attempts": list(attempts_of(viewer, job)),
        "log": log,
    }
    return render(request, "jobs/logs.html", context)


@page("GET")
def job_log_lines(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Rows of a window for the script that scrolls; where it stands is told in headers."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)
    try:
        ask = read_ask(request)
    except Invalid as refused:
        return HttpResponse(refused.detail, status=400, content_type="text/plain; charset=utf-8")
    log = log_view(viewer, job, ask)
    response = HttpResponse(log.rows)
    response["X-First-Line"] = str(log.first_line)
    response["X-Next-Line"] = str(log.next_line)
    response["X-Total-Lines"] = str(log.total_lines)
    response["X-Log-Size"] = str(log.size)
    response["X-Log-Complete"] = "true" if log.complete else "false"
    response["Cache-Control"] = "no-store"
    return response


@page("GET")
def job_log_download(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Every byte the rank wrote, unchanged, as a file and never as a page."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)
    try:
        ask = read_ask(request)
    except Invalid as refused:
        return HttpResponse(refused.detail, status=400, content_type="text/plain; charset=utf-8")
    placement = get_readable_placement(viewer, job, ask.attempt, ask.rank)
    if placement is None:
        raise NotFound("Nothing was placed yet.")
    response = StreamingHttpResponse(
        stream_log(placement), content_type="text/plain; charset=utf-8"
    )
    name = f"job-{job.pk}-attempt-{placement.attempt.number}-rank-{placement.rank}.log"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response
