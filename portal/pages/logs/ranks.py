"""The log of all ranks of an attempt together, by time; and in which of them a text is found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from accounts.errors import Invalid, NotFound
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from portal.pages.logs.finding import LONGEST_S, finder_asked
from portal.pages.logs.window import WINDOW, read_number
from portal.reports.log_rows import MergedRow, arrival_of, merged_rows
from portal.terminal import render_lines
from portal.terminal.search import Finder, find_lines
from scheduler.models import Attempt, Job, Placement
from scheduler.selectors.jobs import attempts_of, get_visible_job
from scheduler.selectors.logs import get_readable_placement, log_is_complete, stream_lines
from scheduler.selectors.printed.merging import Merged, merged_log

PARAMETERS = ("attempt", "before", "q", "mode", "part")
MOST_FOUND = 10_000


@dataclass(frozen=True, slots=True)
class FoundIn:
    """How many lines of a rank match and the first of them; `is_full`: at least so many."""

    rank: int
    url: str
    count: int
    first: int
    is_full: bool


@page("GET")
def job_log_ranks(request: HttpRequest, pk: int) -> HttpResponseBase:
    """`?before=` a moment turns to earlier lines, `?q=` says in which ranks a text is found."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)
    problems: list[str] = []
    number, before, find = None, None, None
    try:
        number = read_number(request, "attempt", low=1)
        before = _read_moment(request.GET.get("before", ""))
        find = finder_asked(request)
    except Invalid as refused:
        problems.append(refused.detail)
    get_readable_placement(viewer, job)
    attempts = list(attempts_of(viewer, job))
    attempt = next((one for one in attempts if one.number == number), None)
    if number and attempt is None:
        raise NotFound("This job has no such attempt.")
    attempt = attempt or (attempts[-1] if attempts else None)
    placements = _with_attempt(attempt) if attempt else []
    merged = merged_log(placements, before=before, count=WINDOW)
    context = job_frame(viewer, job) | {
        "tab": "logs",
        "now": timezone.now(),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "attempts": attempts,
        "attempt": attempt,
        "ranks": len(placements),
        "rows": merged_rows(_rows(merged), _urls(job, placements)),
        "cut": [one for one in merged.stretches if one.left_out],
        "before": before,
        "earlier": merged.before,
        "is_over": all(map(log_is_complete, placements)),
        "q": request.GET.get("q", ""),
        "found": list(_found(job, placements, find)) if find else None,
    }
    part = "#rows" if request.GET.get("part") == "rows" else ""
    return render(request, f"jobs/logs/ranks.html{part}", context)


def _with_attempt(attempt: Attempt) -> list[Placement]:
    """Its placements, each of which knows it without another query."""
    placements = list(attempt.placements.all())
    for placement in placements:
        placement.attempt = attempt
    return placements


def _read_moment(text: str) -> datetime | None:
    """Seconds of the epoch as this page's links give them; None for none."""
    try:
        return datetime.fromtimestamp(float(text[:20]), tz=UTC) if text else None
    except (ValueError, OverflowError, OSError):
        raise Invalid("before: write seconds since 1970.", field="before") from None


def _urls(job: Job, placements: Sequence[Placement]) -> dict[int, str]:
    here = reverse("jobs:logs", args=[job.pk])
    return {
        one.rank: f"{here}?{urlencode({'attempt': one.attempt.number, 'rank': one.rank})}"
        for one in placements
    }


def _rows(merged: Merged) -> Iterator[MergedRow]:
    for stretch in merged.stretches:
        for line in render_lines(stretch.raw, stretch.first_line).lines:
            at = arrival_of(stretch.arrivals, line.number)
            yield MergedRow(at, stretch.placement.rank, line)


def _found(job: Job, placements: Sequence[Placement], find: Finder) -> Iterator[FoundIn]:
    """Rank by rank while there is time; the log of a rank goes on where this one stops."""
    urls, until = _urls(job, placements), time.monotonic() + LONGEST_S
    for placement in placements:
        found = find_lines(
            stream_lines(placement, 1),
            1,
            find,
            most=MOST_FOUND,
            is_over=lambda: time.monotonic() > until,
            with_rest=log_is_complete(placement),
        )
        if found.lines:
            rank, is_full = placement.rank, bool(found.next_line)
            yield FoundIn(rank, urls[rank], len(found.lines), found.lines[0], is_full)
        if time.monotonic() > until:
            return
