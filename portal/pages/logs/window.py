"""The window of a job's log: what is asked for, and what a page shows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from accounts.errors import Invalid
from portal.pages.access import choice
from portal.reports.log_rows import gaps_above, has_pause, log_rows
from portal.terminal import MAX_LINE_CHARS, MAX_WHOLE_CHARS, render_lines
from scheduler.models import Job, LogChunk, Placement
from scheduler.selectors.logs import has_reached_cap
from scheduler.selectors.printed.silences import Silence, silences_of
from scheduler.selectors.printed.windows import LogWindow, read_last_lines, read_lines
from scheduler.states import AttemptState, JobState

WINDOW = 500
EMBEDDED = 60
CONTEXT = 20
MAX_NUMBER = 2**53
# What the script reads of the address, with the values that it knows; `q` takes any.
_OF_SCRIPT = {
    "mode": ("regex",),
    "ts": ("off", "relative", "local", "utc"),
    "wrap": ("1",),
    "size": ("large", "small"),
}
_NO_ROWS = SafeString("")


@dataclass(frozen=True, slots=True)
class LogAsk:
    """What of a log is asked for; None means the default: latest attempt, and the first error of
    a failed one, else the end of the log. `is_whole`: nothing of a long line is folded. `before`:
    instead of from a line on, the last ones before it."""

    attempt: int | None
    rank: int
    from_line: int | None
    count: int
    is_whole: bool = False
    before: int | None = None


def read_ask(request: HttpRequest, count: int = WINDOW) -> LogAsk:
    """The parameters of a log URL; raises Invalid that names the wrong one."""
    attempt = read_number(request, "attempt", low=1)
    rank = read_number(request, "rank", low=0)
    from_line = read_number(request, "from_line", low=1)
    before = read_number(request, "before", low=2)
    if from_line and before:
        raise Invalid("before: leave it out where there is a from_line.", field="before")
    wanted = read_number(request, "count", low=1, high=WINDOW)
    whole = read_number(request, "whole", low=0, high=1)
    most = 1 if whole else wanted or count
    return LogAsk(attempt, rank or 0, from_line, most, bool(whole), before)


def check_looks(request: HttpRequest) -> None:
    """What the script will read of the address is known on a page with a log; a value that it does
    not know is told above the page."""
    request.GET.get("q")
    for name, choices in _OF_SCRIPT.items():
        choice(request, name, choices)


def read_number(request: HttpRequest, name: str, *, low: int, high: int = MAX_NUMBER) -> int | None:
    """A whole number of the query, None when absent; raises Invalid."""
    text = request.GET.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and low <= int(text) <= high):
        raise Invalid(f"{name}: write a whole number from {low} to {high}.", field=name)
    return int(text)


@dataclass(frozen=True, slots=True)
class LogView:
    """A window of a log as components/_log.html shows it; `placement` None before a placement.

    `error_line`: where a failed attempt's triage found the cause, 0 for nowhere. `begins`: the
    second from which relative times count.
    """

    placement: Placement | None
    rows: SafeString = _NO_ROWS
    first_line: int = 1
    next_line: int = 1
    total_lines: int = 0
    size: int = 0
    complete: bool = False
    follow: bool = False
    topic: str = ""
    lines_url: str = ""
    find_url: str = ""
    download_url: str = ""
    previous_url: str = ""
    next_url: str = ""
    error_line: int = 0
    begins: int = 0
    silences: tuple[Silence, ...] = ()
    is_capped: bool = False
    missing: int = 0


def first_of_last(placement: Placement, count: int) -> int:
    """The line in which the last `count` begin; one of them may have no line end yet."""
    return max(1, placement.log_lines - count + 2)


def log_view(
    job: Job,
    placement: Placement | None,
    ask: LogAsk,
    *,
    gaps: bool = True,
    silences: Sequence[Silence] | None = None,
    pieces: Sequence[LogChunk] | None = None,
) -> LogView:
    """The window that is asked for, of a placement whose reader was checked; without `gaps` those
    alone that stand between its lines. `silences` and `pieces` where they were read already."""
    if placement is None:
        return LogView(None)
    error_line = _error_line(placement)
    window = _read(placement, ask, error_line if job.state == JobState.FAILED else 0, pieces)
    if silences is None:
        silences = silences_of(placement) if gaps or has_pause(window.arrivals) else ()
    stream = {"attempt": placement.attempt.number, "rank": placement.rank}

    def url(name: str, **more: int) -> str:
        return f"{reverse(name, args=[job.pk])}?{urlencode(stream | more)}"

    total = max(window.total_lines, window.next_line - 1)
    return LogView(
        placement,
        _rows(window, silences, is_whole=ask.is_whole),
        window.first_line,
        window.next_line,
        total,
        window.size,
        window.is_complete,
        ask.from_line is ask.before is None and not window.is_complete,
        f"log:{placement.attempt_id}:{placement.rank}",
        url("jobs:log_lines"),
        url("jobs:log_find"),
        url("jobs:log_download"),
        url("jobs:logs", before=window.first_line) if window.first_line > 1 else "",
        url("jobs:logs", from_line=window.next_line) if window.next_line <= total else "",
        error_line,
        int(_begin_of(placement).timestamp()),
        tuple(silences),
        has_reached_cap(placement),
        _bytes_missing(placement),
    )


def _read(
    placement: Placement, ask: LogAsk, error_line: int, pieces: Sequence[LogChunk] | None
) -> LogWindow:
    """The window that is asked for; by default that with `error_line`, 0 for none, or the end."""
    if ask.from_line:
        return read_lines(placement, from_line=ask.from_line, count=ask.count, pieces=pieces)
    first, end = first_of_last(placement, ask.count), placement.log_lines + 2
    if ask.before and ask.before < end:
        first, end = max(1, ask.before - ask.count), ask.before
    if ask.before or not error_line:
        return read_last_lines(placement, from_line=first, count=end - first, pieces=pieces)
    first = max(1, min(first, error_line - CONTEXT))
    window = read_lines(placement, from_line=first, count=ask.count)
    if window.next_line > error_line:
        return window
    # Long lines before it filled the window.
    return read_lines(placement, from_line=error_line, count=ask.count)


def _rows(window: LogWindow, silences: Sequence[Silence], *, is_whole: bool) -> SafeString:
    most = MAX_WHOLE_CHARS if is_whole else MAX_LINE_CHARS
    # Colours do not carry over from lines that are not in the window.
    lines = render_lines(window.raw, window.first_line, most_chars=most).lines
    gaps = gaps_above(silences, window.arrivals, window.placement.node.name)
    return log_rows(lines, window.arrivals, gaps)


def _bytes_missing(placement: Placement) -> int:
    """How much of the end of an ended attempt's log never came: its node said how much there is."""
    if placement.attempt.state != AttemptState.ENDED or placement.log_pruned_at is not None:
        return 0
    return max(0, (placement.log_expected or 0) - placement.log_size)


def _error_line(placement: Placement) -> int:
    """The first line of this rank that speaks for the cause of the attempt's failure."""
    evidence = placement.attempt.triage.get("evidence", ())
    lines = [one.get("line") or 0 for one in evidence if one.get("rank") == placement.rank]
    return min((line for line in lines if 0 < line <= placement.log_lines + 1), default=0)


def _begin_of(placement: Placement) -> datetime:
    return placement.started_at or placement.attempt.assigned_at
