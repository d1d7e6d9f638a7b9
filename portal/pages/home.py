"""What of mine runs, what waits and why, what has ended; and what needs me."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.selectors import submittable_projects
from portal.pages.access import page, viewer_of
from portal.pages.job_rows import job_rows
from portal.pages.welcome import setup_steps
from scheduler.selectors.cluster import pool_summaries, troubled_nodes
from scheduler.selectors.composing.drafts import drafts_of
from scheduler.selectors.jobs import has_submitted, home_jobs

MOST_DRAFTS = 3


@page("GET")
def home(request: HttpRequest) -> HttpResponseBase:
    """`?part=lists` answers with the lists alone, for live updates."""
    viewer = viewer_of(request)
    now = timezone.now()
    jobs = home_jobs(viewer, now=now)
    rows = {row.job.pk: row for row in job_rows(viewer, jobs.everything, now=now)}
    projects = list(submittable_projects(viewer))
    context = {
        "live": [rows[job.pk] for job in jobs.live],
        "waiting": [rows[job.pk] for job in jobs.waiting],
        "finished": [rows[job.pk] for job in jobs.finished],
        "is_empty": not jobs.everything,
        "is_new": not jobs.everything and not has_submitted(viewer),
        "projects": projects,
        "drafts": drafts_of(viewer)[:MOST_DRAFTS],
        "topics": " ".join(f"project:{project.pk}" for project in projects[:40]),
        "now": now,
    }
    if request.GET.get("part") == "lists":
        return render(request, "home.html#lists", context)
    return render(request, "home.html", context | _around(viewer))


def _around(viewer: User) -> dict[str, object]:
    """What stands around the lists: pools, and for operators nodes in trouble and first steps."""
    may_operate = can(viewer, "operate", None)
    steps = setup_steps(viewer) if may_operate else []
    return {
        "pools": pool_summaries(viewer),
        "may_operate": may_operate,
        "troubled": troubled_nodes(viewer) if may_operate else [],
        "steps": steps,
        "steps_left": sum(not step.is_done for step in steps),
    }
