"""The metrics of a job: its GPUs and their nodes over time, and what happened meanwhile."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.errors import Forbidden
from accounts.models import User
from portal.forms.filters import unknown_parameters
from portal.forms.spans import Span, read_span
from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from portal.pages.job_tabs import read_attempt
from portal.reports.charts import device_charts, host_charts, latest, slowed_of
from portal.reports.gpus.ranks import ranks_of
from portal.reports.marks import marks_of, with_marks
from scheduler.models import Attempt
from scheduler.selectors.machines.hosts import host_series
from scheduler.selectors.one_job.header import Header, job_with_header
from scheduler.selectors.one_job.tries import read_devices
from scheduler.selectors.telemetry import CHART_POINTS, attempt_series, span_of

EVENTS_READ = 500
PARAMETERS = ("attempt", "from", "to")


@page("GET")
def job_metrics(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Charts of every granted GPU and of its nodes, each with its table; `?from=` and `?to=` show
    a part of the time."""
    viewer, now = viewer_of(request), timezone.now()
    header = job_with_header(viewer, pk, events=EVENTS_READ, checkpoints=True, tries=True)
    context = job_frame(viewer, header) | {"tab": "metrics", "now": now}
    if not context["may_measure"]:
        raise Forbidden("Your role may see this job, but not what its GPUs do.")
    number, problem = read_attempt(request)
    problems = [problem] if problem else []
    attempts = header.attempts
    chosen = next((one for one in attempts if one.number == number), None)
    if number is not None and chosen is None:
        problems.append(f"attempt: there is no attempt {number}; this is the latest one.")
    chosen = chosen or (attempts[-1] if attempts else None)
    span = read_span(request.GET, now=now, problems=problems)
    if chosen:
        context |= _drawn(viewer, header, chosen, span, now)
    context |= {
        "attempts": attempts,
        "attempt": chosen.number if chosen else None,
        "span": span,
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
    }
    return render(request, "jobs/metrics.html", context)


def _drawn(
    viewer: User, header: Header, attempt: Attempt, span: Span, now: datetime
) -> dict[str, Any]:
    asked: dict[str, Any] = {"since": span.since, "until": span.until}
    read_devices([attempt])
    series = attempt_series(viewer, header.job, attempt, **asked, now=now, most=CHART_POINTS)
    hosts = host_series(viewer, header.job, attempt, **asked, now=now)
    since, until = span_of(attempt, now, **asked)
    marks = marks_of(attempt, header.events)
    # A part that has an end does not go on.
    is_done = span.until is not None or header.job.ended_at is not None
    drawn = host_charts(hosts) if hosts or not is_done else []
    return {
        "charts": with_marks(device_charts(series), marks, since=since, until=until),
        "slowed": slowed_of(series),
        "ranks": ranks_of(series),
        "host_charts": with_marks(drawn, marks, since=since, until=until),
        "hosts_since": latest(hosts),
        "marks": [mark for mark in marks if since <= mark.at <= until],
        "since": latest(series),
        "begins": since,
        "ends": until,
        "is_done": is_done,
        "is_simulated": any(one.is_simulated for one in series),
    }
