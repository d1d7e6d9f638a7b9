"""The tabs of a job beside its overview: events, metrics, spec, cost, and the why fragment."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from accounts.errors import Forbidden, NotFound
from accounts.models import User
from portal.pages.access import page, viewer_of
from portal.pages.event_lines import EventLine, event_line
from portal.pages.job_page import job_frame
from portal.pages.listing.tails import tail_of
from portal.pages.queue.why import awaited, why
from portal.reports.charts import device_points, host_points, latest
from portal.reports.spec_text import command_line_of, diff_of, yaml_of
from scheduler.loop.answering import before_answers
from scheduler.models import Job, JobEvent
from scheduler.selectors.jobs import (
    get_visible_job,
    may_read_inside,
    shown_spec,
)
from scheduler.selectors.machines.hosts import hosts_since
from scheduler.selectors.one_job.happened import job_events, shown_facts
from scheduler.selectors.one_job.header import job_with_header
from scheduler.selectors.telemetry import job_series
from scheduler.selectors.usage import job_cost
from scheduler.selectors.waits.deciding import last_decided

EVENTS_AT_MOST = 200
MAX_ATTEMPT = 10_000


def _frame(request: HttpRequest, pk: int, tab: str) -> tuple[User, Job, dict[str, Any]]:
    viewer = viewer_of(request)
    header = job_with_header(viewer, pk)
    return viewer, header.job, job_frame(viewer, header) | {"tab": tab, "now": timezone.now()}


@page("GET")
def job_why(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The why panel alone, for the places that show it beside other things."""
    viewer, now = viewer_of(request), timezone.now()
    job = get_visible_job(viewer, pk)
    context = {"job": job, "now": now, **why(job, last_decided(viewer, now=now), now)}
    context |= awaited(viewer, job)
    return render(request, "jobs/_why.html", context)


@page("GET")
def job_before(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Who was started while it waited, and which factor put them before it."""
    viewer, job, context = _frame(request, pk, "")
    context["earlier"] = before_answers(viewer, job, now=context["now"])
    return render(request, "jobs/answers/before.html", context)


@page("GET")
def job_events_tab(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The job's history, newest first."""
    viewer, job, context = _frame(request, pk, "events")
    every = job_events(viewer, job).reverse()

    def read(before: int | None, most: int) -> Iterable[JobEvent]:
        return (every.filter(pk__lt=before) if before else every)[:most]

    def line(event: JobEvent) -> EventLine:
        return event_line(event, shown_facts(event, may_read=context["may_read"]))

    context["events"] = tail_of(request, read, size=EVENTS_AT_MOST).made(line)
    part = "#events" if request.GET.get("part") == "events" else ""
    return render(request, f"jobs/events.html{part}", context)


def read_attempt(request: HttpRequest) -> tuple[int | None, str]:
    """The attempt number in the URL, None for the latest; the second value is what is wrong."""
    text = request.GET.get("attempt", "")
    if not text:
        return None, ""
    if text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MAX_ATTEMPT:
        return int(text[:9]), ""
    return None, f"attempt: {text[:20]!r} is not an attempt number; this is the latest one."


@page("GET")
def job_series_points(request: HttpRequest, pk: int) -> HttpResponseBase:
    """New readings since `?since=` as JSON, for charts that are drawn already; with `?of=nodes`
    those of its nodes."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)
    attempt, problem = read_attempt(request)
    since = read_since(request.GET.get("since", ""))
    if problem or (request.GET.get("since") and since is None):
        detail = problem or "since: write it like 2026-11-20T12:00:00Z."
        return JsonResponse({"detail": detail}, status=400)
    asked: dict[str, Any] = {"attempt_number": attempt, "since": since, "now": timezone.now()}
    if request.GET.get("of") == "nodes":
        hosts = hosts_since(viewer, job, **asked)
        points, newest = host_points(hosts), latest(hosts) or since
    else:
        series = job_series(viewer, job, **asked)
        points, newest = device_points(series), latest(series) or since
    return JsonResponse(
        {
            "points": points,
            "latest": newest.isoformat() if newest else "",
            "done": job.ended_at is not None,
        }
    )


def read_since(text: str) -> datetime | None:
    """An ISO time with zone; None for none and for anything else."""
    try:
        moment = parse_datetime(text.replace(" ", "+")) if len(text) <= 40 else None
        if moment is None:
            return None
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


@page("GET")
def job_spec(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The normalised spec, as it asks for things now, and the line that asks for the same again."""
    _, job, context = _frame(request, pk, "spec")
    if not context["may_read"]:
        raise Forbidden("Your role may see this job, but not its spec.")
    viewer = viewer_of(request)
    spec = shown_spec(viewer, job)
    context |= {"yaml": yaml_of(spec), "command_line": command_line_of(spec), "spec": spec}
    parent = _parent(viewer, job)
    if parent is not None:
        changes = diff_of(yaml_of(shown_spec(viewer, parent)), context["yaml"])
        context |= {"parent": parent, "changes": changes}
    return render(request, "jobs/spec.html", context)


def _parent(viewer: User, job: Job) -> Job | None:
    """The job it was cloned from, where the viewer may read that one's spec too."""
    if job.cloned_from_id is None:
        return None
    try:
        parent = get_visible_job(viewer, job.cloned_from_id)
    except NotFound:
        return None
    return parent if may_read_inside(viewer, parent) else None


@page("GET")
def job_cost_tab(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Seconds times rate, line by line, and the total that ties to them."""
    viewer, job, context = _frame(request, pk, "cost")
    context["cost"] = job_cost(viewer, job, now=context["now"])
    part = "#lines" if request.GET.get("part") == "lines" else ""
    return render(request, f"jobs/cost.html{part}", context)
