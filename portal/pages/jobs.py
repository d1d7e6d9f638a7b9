"""Jobs: the list, the composer, the job's page, and its buttons."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet, Subquery
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from portal.forms.filters import read_cursor, unknown_parameters, write_cursor
from portal.forms.grammar.jobs import EXAMPLES, KEYS, parse_job_query
from portal.forms.grammar.sorts import Sort, read_place, read_sort, write_place
from portal.pages.access import WhileIn, outlived, page, viewer_of
from portal.pages.changing.reasons import done_or_asked, reason_in
from portal.pages.job_page import EVENTS_SHOWN, job_frame, overview
from portal.pages.job_rows import JobRow, job_rows, rows_and_sets
from portal.pages.listing.columns import columns_here
from portal.pages.listing.job_csv import job_csv
from portal.pages.logs.overview import of_log
from portal.pages.logs.window import check_looks
from portal.pages.queue.why import awaited
from portal.pages.saved.views import around_here, opened_by_default, tabs_of
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from portal.pages.seconding import done_or_proposed
from scheduler.models import BulkCancel, Job
from scheduler.selectors.jobs import get_visible_job, one_of_each_set, visible_jobs
from scheduler.selectors.one_job.header import job_with_header
from scheduler.selectors.ordered.columns import JOB_COLUMNS
from scheduler.selectors.ordered.ordering import Place, page_in_order, place_of
from scheduler.selectors.tables.narrowing import filter_jobs
from scheduler.selectors.tables.totals import totals_of
from scheduler.selectors.waits.deciding import decided_by
from scheduler.services.changing.by_hand import hold_job, pause_job, release_job
from scheduler.services.jobs import cancel_job
from scheduler.services.seconding.proposing import propose_to_cancel_jobs
from scheduler.states import LIVE_JOB_STATES, JobState

PAGE_SIZES = (50, 100, 200)
LIST_PARAMETERS = ("q", "scope", "cursor", "top", "part", "per", "columns", "sort", *KEYS)
USUAL_ORDER = "-submitted"
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
    # An order that is none leaves the table as it is; the filter alone says what is in it.
    wrong: list[str] = []
    sort = read_sort(request.GET.get("sort", ""), JOB_COLUMNS, USUAL_ORDER, wrong)
    after, top = _marks(request, sort, problems)
    every = visible_jobs(viewer).filter(scope.part_of("project"))
    found = filter_jobs(every, query.wanted, viewer) if not problems else every.none()
    if request.GET.get("part") == "csv" and not problems:
        return job_csv(viewer, found, sort, now=now)
    listed = found if query.wanted.job_set else one_of_each_set(found)
    problems += wrong
    per = _per_page(request, problems)
    jobs, first = _page_of(listed, sort, after, top, per)
    rows = (job_rows if query.wanted.job_set else rows_and_sets)(viewer, jobs[:per], now=now)
    context = {
        "rows": rows,
        "per": per,
        "page_sizes": PAGE_SIZES,
        "query": query,
        "problems": problems,
        "columns": (columns := columns_here(request, viewer, problems)),
        "heads": columns.heads(sort),
        "sort": sort,
        "is_usual_order": str(sort) == USUAL_ORDER,
        **_looks(request, sort),
        "presets": PRESETS,
        "examples": EXAMPLES.items(),
        "unknown": unknown_parameters(request.GET, LIST_PARAMETERS),
        "next_cursor": write_place(sort, place_of(jobs[per - 1], sort.column))
        if len(jobs) > per
        else "",
        "totals": totals_of(found),
        "newer": listed.filter(pk__gt=top).count() if top and not after else 0,
        "top": write_cursor(first) if first else "",
        **_freshness(request, viewer, rows, now),
        "of_all": totals_of(every) if query.chips and not (rows or problems) else None,
        "is_empty": not (rows or query.text or problems or after or scope),
        "key": uuid.uuid4().hex,
        "now": now,
    }
    if request.GET.get("part") == "rows":
        return render(request, "jobs/list.html#rows", context)
    return render(request, "jobs/list.html", context | {"views": tabs_of(request, viewer, "jobs")})


def _freshness(
    request: HttpRequest, viewer: User, rows: Iterable[JobRow], now: datetime
) -> dict[str, Any]:
    """Topics to follow; whether a row waits, or is made old by time alone; and when the scheduler
    last decided."""
    around = around_here(request, viewer, "jobs")
    waits = any(row.job.state == JobState.QUEUED for row in rows)
    lives = (row.view.live if row.view else row.job.state in LIVE_JOB_STATES for row in rows)
    return {
        "topics": " ".join(around.topics),
        "waits": waits,
        "ages": waits or any(lives),
        "decided": decided_by(around.lease_until, now=now),
    }


def _looks(request: HttpRequest, sort: Sort) -> dict[str, Any]:
    """What of the address says how the table looks, whatever is in it: by name, and for a link."""
    kept = {name: request.GET[name] for name in ("per", "columns") if request.GET.get(name)}
    if str(sort) != USUAL_ORDER:
        kept = {"sort": str(sort), **kept}
    return {"keeping": kept, "looks": f"&{urlencode(kept)}" if kept else ""}


def _marks(request: HttpRequest, sort: Sort, problems: list[str]) -> tuple[Place | None, int]:
    """Where the page begins, and the newest job when its first one was opened; 0 for none."""
    after, top = None, 0
    for name in ("cursor", "top"):
        text = request.GET.get(name, "")
        try:
            if name == "cursor":
                after = read_place(text, sort)
            else:
                top = read_cursor(text) or 0
        except ValueError as error:
            problems.append(f"{name}: is {error}; open the list from its beginning.")
    return after, top


def _page_of(
    found: QuerySet[Job], sort: Sort, after: Place | None, top: int, per: int
) -> tuple[list[Job], int]:
    """The jobs of a page and one more, if there is one; and which was the newest of all when the
    first page was opened."""
    shown = found.filter(pk__lte=top) if top else found
    if not top and str(sort) != USUAL_ORDER:
        # In another order it stands somewhere.
        shown = shown.annotate(newest=Subquery(found.order_by("-pk").values("pk")[:1]))
    jobs = page_in_order(shown, sort.column, falls=sort.falls, after=after, limit=per + 1)
    return jobs, top or (getattr(jobs[0], "newest", jobs[0].pk) if jobs else 0)


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


@page("GET")
def job_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """One job. `?part=` answers with the region that a hint asked for."""
    viewer, now = viewer_of(request), timezone.now()
    part = request.GET.get("part", "")
    if part == "head":
        return _head(request, viewer, pk, now)
    is_part = part in ("live", "side")
    whole = {"silences": not is_part, "calls": not is_part, "waiters": part != "live"}
    header = job_with_header(viewer, pk, events=EVENTS_SHOWN, tries=True, **whole)
    context = overview(viewer, header, now=now) | {"waiters": header.waiters}
    context |= {} if is_part else awaited(viewer, header.job)
    context |= of_log(header, now, may_read=context["may_read"], with_log=not is_part)
    if is_part:
        response = render(request, f"jobs/detail.html#{part}", context)
        latest = context["latest"]
        # Charts and log of the page belong to one attempt, the answers to one wait; another one
        # needs a new page.
        shown = (request.GET.get("attempt", ""), request.GET.get("waits", ""))
        waits = str(context["job"].state) if context["is_waiting"] else ""
        if part == "live" and shown != (str(latest.pk if latest else ""), waits):
            response["HX-Refresh"] = "true"
        return response
    if "log" in context:
        check_looks(request)
    return render(request, "jobs/detail.html", context)


def _head(request: HttpRequest, viewer: User, pk: int, now: datetime) -> HttpResponseBase:
    """`?attempt=`: the last one that there was when the page was opened, 0 for none."""
    tab, text = request.GET.get("tab", ""), request.GET.get("attempt", "")
    known = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    context = job_frame(viewer, job_with_header(viewer, pk, tries=known is not None, calls=False))
    latest = context["attempts_known"]
    context |= {"tab": tab if tab in TABS else "", "now": now, "is_part": True}
    context |= {"attempts_known": known, "newer": latest if known and latest > known else 0}
    context |= outlived(request, context["job"].state)
    response = render(request, "jobs/_head.html", context)
    # A page that was opened before anything began has no log and no chart to go on with.
    if known == 0 and latest:
        response["HX-Refresh"] = "true"
    return response


@page("POST")
def job_cancel(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Ask the job to stop; a waiting one is cancelled at once."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        after = cancel_job(actor=viewer, job=job, reason=reason_in(request))
        if after.state == JobState.CANCELLED:
            return f"Job #{pk} is cancelled."
        if after.state == JobState.STOPPING or after.ended_at is None:
            stopping = f"Job #{pk} was asked to stop; it has time to save its work."
            return WhileIn(after.state, stopping)
        return f"Job #{pk} had ended before."

    def propose(reason: str) -> BulkCancel:
        return propose_to_cancel_jobs(actor=viewer, jobs=[job], reason=reason)

    return done_or_proposed(request, act, propose, "jobs:detail", pk, verb=f"Cancel job #{pk}")


@page("POST")
def job_hold(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Keep a queued job from starting."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        after = hold_job(actor=viewer, job=job, reason=reason_in(request))
        return WhileIn(after.state, f"Job #{pk} is held; release it to let it start.")

    return done_or_asked(request, act, "jobs:detail", pk, verb=f"Hold job #{pk}")


@page("POST")
def job_pause(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Let the program save its work, then hold the job in its old place."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        after = pause_job(actor=viewer, job=job, reason=reason_in(request))
        if after.state == JobState.HELD:
            return WhileIn(after.state, f"Job #{pk} is held; release it to let it start.")
        then = "then it is paused in its old place"
        return WhileIn(after.state, f"Job #{pk} was asked to save its work and stop; {then}.")

    return done_or_asked(request, act, "jobs:detail", pk, verb=f"Pause job #{pk}")


@page("POST")
def job_release(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Let a held job start."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)

    def act() -> str:
        after = release_job(actor=viewer, job=job, reason=reason_in(request))
        return WhileIn(after.state, f"Job #{pk} is released; it waits in its old place.")

    return done_or_asked(request, act, "jobs:detail", pk, verb=f"Release job #{pk}")
