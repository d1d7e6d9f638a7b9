"""One job at a glance, beside the list in which it stands."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from portal.pages.job_rows import job_rows
from portal.pages.logs.overview import of_log
from portal.pages.logs.window import first_of_last
from portal.pages.queue.why import why
from portal.terminal import render_lines
from scheduler.models import Placement
from scheduler.selectors.one_job.header import Header, job_with_header
from scheduler.selectors.printed.windows import read_last_lines
from scheduler.selectors.waits.deciding import decided_by

LINES = 12
# A line has so much room and no more: it is read on the page of its log.
_MOST_CHARS = 160
_MOST_QUERY = 4000


@page("GET")
def job_glance(request: HttpRequest, pk: int) -> HttpResponseBase:
    """What its row has no room for, the end of its log, and its buttons; no page of its own."""
    viewer, now = viewer_of(request), timezone.now()
    header = job_with_header(viewer, pk, tries=True, calls=False)
    frame = job_frame(viewer, header)
    (row,) = job_rows(viewer, [header.job], now=now)
    context = frame | {
        "row": row,
        "lines": _last_lines(header, may_read=frame["may_read"]),
        # Buttons lead back to the list as it is.
        "query": urlsplit(request.headers.get("HX-Current-URL", "")).query[:_MOST_QUERY],
        "now": now,
        **of_log(header, now, may_read=frame["may_read"], with_log=False),
        **why(header.job, decided_by(header.lease_until, now=now), now),
    }
    return render(request, "jobs/answers/_glance.html", context)


def _last_lines(header: Header, *, may_read: bool) -> list[str]:
    """The last that the first rank of the latest attempt wrote, as text."""
    ranks: list[Placement] = list(header.attempts[-1].placements.all()) if header.attempts else []
    first = next((one for one in ranks if one.rank == 0), None)
    if first is None or not may_read or first.log_pruned_at is not None or not first.log_size:
        return []
    begin = first_of_last(first, LINES)
    window = read_last_lines(first, from_line=begin, count=first.log_lines + 2 - begin)
    drawn = render_lines(window.raw, window.first_line, most_chars=_MOST_CHARS).lines
    return [line.text for line in drawn]
