"""Jobs: the list, the composer, the job's page, and its buttons."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Count, F, QuerySet, Sum
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from portal.forms.filters import read_cursor, unknown_parameters, write_cursor
from portal.forms.grammar.jobs import EXAMPLES, KEYS, parse_job_query
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.job_page import EVENTS_SHOWN, job_frame, overview
from portal.pages.job_rows import JobRow, job_rows, rows_and_sets
from portal.pages.listing.columns import columns_here
from portal.pages.listing.job_csv import job_csv
from portal.pages.logs.overview import of_log
from portal.pages.saved.views import around_here, opened_by_default, tabs_of
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from scheduler.models import Job
from scheduler.selectors.jobs import (
    filter_jobs,
    get_visible_job,
    one_of_each_set,
    visible_jobs,
)
from scheduler.selectors.one_job.header import job_with_header
from scheduler.selectors.waits.deciding import decided_by
from scheduler.services.jobs import cancel_job, hold_job, pause_job, release_job
from scheduler.states import JobState

PAGE_SIZES = (50, 100, 200)
COUNTED_AT_MOST = 1000
LIST_PARAMETERS = ("q", "scope", "cursor", "top", "part", "per", "columns", *KEYS)
TABS = ("logs", "files", "metrics", "events", "spec", "cost")
PRESETS = (
    ("", "All"),
    ("user:me", "Mine"),
    ("state:live", "Running"),
    ("state:waiting", "Waiting"),
    ("state:finished", "Finished"),
)


@page("GET")
def job_list(request: HttpRequest) -> HttpResponseBase:
    """The filterable table; its URL is the report. As a fragment: the same rows, up to date."""
    viewer, now = viewer_of(request), timezone.now()
    if opened := opened_by_default(request, viewer, "jobs") or opened_in_scope(request, viewer):
        return opened
    query = parse_job_query(_query_text(request), now=now)
    problems = list(query.problems)
    scope = scope_here(request, viewer, problems)
    before, top = None, None
    for name in ("cursor", "top"):
        try:
            mark = read_cursor(request.GET.get(name, ""))
        except ValueError as error:
            problems.append(f"{name}: is {error}; open the list from its beginning.")
        else:
            before, top = (mark, top) if name == "cursor" else (before, mark)
    every = visible_jobs(viewer).filter(scope.part_of("project"))
    found = filter_jobs(every, query.wanted, viewer) if not problems else every.none()
    if request.GET.get("part") == "csv" and not problems:
        return job_csv(viewer, found, now=now)
    found = found if query.wanted.job_set else one_of_each_set(found)
    per = _per_page(request, problems)
    shown = found.filter(pk__lt=before) if before else found
    shown = shown.filter(pk__lte=top) if top else shown
    jobs = list(shown.order_by("-pk")[: per + 1])
    listed = job_rows if query.wanted.job_set else rows_and_sets
    rows = listed(viewer, jobs[:per], now=now)
    first = top or (jobs[0].pk if jobs else 0)
    context = {
        "rows": rows,
        "per": per,
        "page_sizes": PAGE_SIZES,
        "query": query,
        "problems": problems,
        "columns": columns_here(request, viewer, problems),
        "presets": PRESETS,
        "examples": EXAMPLES.items(),
        "unknown": unknown_parameters(request.GET, LIST_PARAMETERS),
        "next_cursor": write_cursor(jobs[per - 1].pk) if len(jobs) > per else "",
        **_totals(found),
        "newer": found.filter(pk__gt=top).count() if top and not before else 0,
        "top": write_cursor(first) if first else "",
        **_freshness(request, viewer, rows, now),
        "is_empty": not (rows or query.text or problems or before or scope),
        "key": uuid.uuid4().hex,
        "now": now,
    }
    if request.GET.get("part") == "rows":
        return render(request, "jobs/list.html#rows", context)
    return render(request, "jobs/list.html", context | {"views": tabs_of(request, viewer, "jobs")})


def _freshness(
    request: HttpRequest, viewer: User, rows: Iterable[JobRow], now: datetime
) -> dict[str, Any]:
    """Topics to follow; whether a row waits, and when the scheduler last decided."""
    around = around_here(request, viewer, "jobs")
    return {
        "topics": " ".join(around.topics),
        "waits": any(row.job.state == JobState.QUEUED for row in rows),
        "decided": decided_by(around.lease_until, now=now),
    }


def _per_page(request: HttpRequest, problems: list[str]) -> int:
    text = request.GET.get("per", "") or str(PAGE_SIZES[0])
    if text in map(str, PAGE_SIZES):
        return int(text)
    problems.append("per: choose 50, 100 or 200; these are 50.")
    return PAGE_SIZES[0]


def _query_text(request: HttpRequest) -> str:
    """`q`, with the filters that other pages link to by name joined in."""
    words = [request.GET.get("q", "")]
    words += [f"{key}:{request.GET[key]}" for key in KEYS if request.GET.get(key)]
    return " ".join(word for word in words if word)


def _totals(found: QuerySet[Job]) -> dict[str, Any]:
    """How many jobs the filter finds and what they ask for; no sum where too many to count."""
    gpus = Sum(F("nodes") * F("gpus_per_node"))
    some = found.order_by()[: COUNTED_AT_MOST + 1].aggregate(count=Count("pk"), gpus=gpus)
    if some["count"] > COUNTED_AT_MOST:
        return {"count": f"more than {COUNTED_AT_MOST:,}", "total_gpus": None}
    return {"count": f"{some['count']:,}", "total_gpus": some["gpus"] or 0}


@page("GET")
def job_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """One job. `?part=` answers with the region that a hint asked for."""
    viewer, now = viewer_of(request), timezone.now()
    part = request.GET.get("part", "")
    if part == "head":
        tab = request.GET.get("tab", "")
        context = job_frame(viewer, job_with_header(viewer, pk, calls=False)) | {
            "tab": tab if tab in TABS else "",
            "now": now,
            "is_part": True,
        }
        return render(request, "jobs/_head.html", context)
    is_part = part in ("live", "side")
    header = job_with_header(
        viewer, pk, events=EVENTS_SHOWN, tries=True, silences=not is_part, calls=not is_part
    )
    context = overview(viewer, header, now=now)
    context |= of_log(header, now, may_read=context["may_read"], with_log=not is_part)
    if is_part:
        response = render(request, f"jobs/detail.html#{part}", context)
        latest = context["latest"]
        # Charts and log of the page belong to one attempt; a new one needs a new page.
        if part == "live" and request.GET.get("attempt", "") != str(latest.pk if latest else ""):
            response["HX-Refresh"] = "true"
        return response
    return render(request, "jobs/detail.html", context)


@page("POST")
def job_cancel(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Ask the job to stop; a waiting one is cancelled at once."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        after = cancel_job(actor=viewer, job=job)
        if after.state == JobState.CANCELLED:
            return f"Job #{pk} is cancelled."
        if after.state == JobState.STOPPING or after.ended_at is None:
            return f"Job #{pk} was asked to stop; it has time to save its work."
        return f"Job #{pk} had ended before."

    return said_and_back(request, act, "jobs:detail", pk)


@page("POST")
def job_hold(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Keep a queued job from starting."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        hold_job(actor=viewer, job=job)
        return f"Job #{pk} is held; release it to let it start."

    return said_and_back(request, act, "jobs:detail", pk)


@page("POST")
def job_pause(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Let the program save its work, then hold the job in its old place."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        after = pause_job(actor=viewer, job=job)
        if after.state == JobState.HELD:
            return f"Job #{pk} is held; release it to let it start."
        return f"Job #{pk} was asked to save its work and stop; then it is paused in its old place."

    return said_and_back(request, act, "jobs:detail", pk)


@page("POST")
def job_release(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Let a held job start."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        release_job(actor=viewer, job=job)
        return f"Job #{pk} is released; it waits in its old place."

    return said_and_back(request, act, "jobs:detail", pk)
