"""Search in a log: the numbers of all lines that match, for the script of the log window."""

from __future__ import annotations

import threading
import time

from django.http import HttpRequest, HttpResponseBase, JsonResponse

from accounts.errors import Conflict, Invalid
from portal import limits
from portal.pages.access import page, viewer_of
from portal.pages.logs.reading import refusal
from portal.pages.logs.window import read_ask
from portal.terminal.search import Finder, Found, PatternError, find_lines, finder_of
from scheduler.selectors.jobs import get_visible_job
from scheduler.selectors.logs import get_readable_placement, stream_lines
from scheduler.selectors.printed.windows import count_lines, log_is_complete

MOST_LINES = 10_000
# One answer never takes longer; the script asks on where it ended, so that counts are exact.
LONGEST_S = 2.0
_PATIENCE_S = 1.0
# Searching fills a core: other requests of this process must go on meanwhile.
_seats = threading.BoundedSemaphore(2)


@page("GET")
def job_log_find(request: HttpRequest, pk: int) -> HttpResponseBase:
    """`?q=` plain text, or with `mode=regex` a pattern, from line `from_line` on."""
    viewer = viewer_of(request)
    if wait_s := limits.wait_s(limits.SEARCH, viewer.pk, search=request.GET.get("q", "")):
        slow = Conflict(f"You search too fast. Try again in {wait_s} s.")
        return refusal(slow, status=429, headers={"Retry-After": str(wait_s)})
    job = get_visible_job(viewer, pk)
    try:
        ask = read_ask(request)
        find = finder_asked(request)
    except Invalid as refused:
        return refusal(refused)
    placement = get_readable_placement(viewer, job, ask.attempt, ask.rank)
    found = Found([], 0)
    if placement is not None and find is not None:
        if not _seats.acquire(timeout=_PATIENCE_S):
            return refusal(Conflict("Others are searching; try again in some seconds."), status=503)
        try:
            begin, until = ask.from_line or 1, time.monotonic() + LONGEST_S
            found = find_lines(
                stream_lines(placement, begin),
                begin,
                find,
                most=MOST_LINES,
                is_over=lambda: time.monotonic() > until,
                with_rest=log_is_complete(placement),
            )
        finally:
            _seats.release()
    response = JsonResponse(
        {
            "lines": found.lines,
            "next_line": found.next_line,
            "note": cut_words(found.cut_line),
            "total_lines": count_lines(placement) if placement else 0,
        }
    )
    response["Cache-Control"] = "no-store"
    return response


def cut_words(line: int) -> str:
    """What a search says of a line that it left before its end; nothing of 0."""
    return f" (line {line:,} is too long to be searched to its end)" if line else ""


def finder_asked(request: HttpRequest) -> Finder | None:
    """None for no text, which is nowhere. Raises Invalid."""
    mode = request.GET.get("mode", "")
    if mode not in ("", "regex"):
        raise Invalid("mode: write regex, or leave it out.", field="mode")
    text = request.GET.get("q", "")
    try:
        return finder_of(text, is_regex=mode == "regex") if text else None
    except PatternError as wrong:
        raise Invalid(f"q: {wrong}", field="q") from None
