"""Another time limit, tier or size for a job, or a pause: first what it means for others, then
the button."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from portal.forms.filters import unknown_parameters
from portal.pages.access import choice, page, viewer_of
from portal.pages.job_page import job_frame
from scheduler.loop.changing import (
    TIERS,
    Change,
    change_job,
    preview,
    preview_pause,
    read_change,
)
from scheduler.models import Job
from scheduler.selectors.one_job.header import job_with_header
from scheduler.services.changing.sizes import sizes_offered
from scheduler.services.jobs import check_actor
from scheduler.spec.units import format_duration
from scheduler.states import Tier

PARAMETERS = ("time_limit", "tier", "nodes", "pause")


@page("GET", "POST")
def job_change(request: HttpRequest, pk: int) -> HttpResponseBase:
    """`?time_limit=&tier=&nodes=` shows what it would do, a POST of the same does it; `?pause=1`
    shows whom a pause lets start sooner."""
    viewer, now = viewer_of(request), timezone.now()
    header = job_with_header(viewer, pk)
    job = header.job
    asked = request.POST if request.method == "POST" else request.GET
    limit, tier, nodes, pause = (asked.get(name, "").strip()[:40] for name in PARAMETERS)
    choice(request, "pause", ("1",))
    if request.method == "POST":
        check_actor(viewer, job, None)
    context = job_frame(viewer, header) | {
        "now": now,
        "limit": limit or format_duration(job.time_limit_s),
        "tier": tier or Tier(job.tier).name.lower(),
        "tiers": list(TIERS),
        "nodes": nodes or str(job.nodes),
        "sizes": sizes_offered(job),
        "problems": [],
        "unknown": unknown_parameters(request.GET, PARAMETERS),
    }
    try:
        change = _changes(read_change(limit, tier, nodes), job)
        if request.method == "POST":
            change_job(actor=viewer, job=job, change=change, now=now)
            messages.success(request, f"Job #{pk} is changed.")
            return redirect("sessions:detail" if job.spec.get("session") else "jobs:detail", pk)
        if change != Change() and "change" in context["actions"]:
            context["impact"] = _with_spans(preview(viewer, job, change, now=now))
            context["resizes"] = change.nodes is not None
        elif pause and "pause" in context["actions"]:
            context["pausing"] = _with_spans(preview_pause(viewer, job, now=now))
        elif pause and context["actions"]:
            context["problems"] = [f"Only a job that runs is paused; this one is {job.state}."]
    except (Invalid, Conflict) as refused:
        context["problems"] = [refused.detail]
    except Forbidden as refused:
        messages.error(request, refused.detail)
        return redirect("jobs:detail", pk)
    status = 422 if context["problems"] and request.method == "POST" else 200
    return render(request, "jobs/answers/change.html", context, status=status)


def _with_spans(impact: dict[str, Any]) -> dict[str, Any]:
    """With how much later or sooner each starts, without a sign."""
    for one in (*impact["delayed"], *impact["sooner"]):
        one["by_s"] = None if one["delay_s"] is None else abs(one["delay_s"])
    return impact


def _changes(asked: Change, job: Job) -> Change:
    """Only what differs from how the job is."""
    return Change(
        asked.time_limit_s if asked.time_limit_s != job.time_limit_s else None,
        asked.tier if asked.tier is not None and int(asked.tier) != job.tier else None,
        asked.nodes if asked.nodes != job.nodes else None,
    )
