"""What of mine runs, what waits and why, what has ended; and what needs me."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.permissions import can
from accounts.selectors import submittable_projects
from portal.pages.access import page, viewer_of
from portal.pages.job_rows import job_rows
from scheduler.selectors.cluster import pool_summaries, troubled_nodes
from scheduler.selectors.jobs import home_jobs


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
        "is_new": not jobs.everything,
        "projects": projects,
        "topics": " ".join(f"project:{project.pk}" for project in projects[:40]),
        "pools": pool_summaries(viewer),
        "troubled": troubled_nodes(viewer) if can(viewer, "operate", None) else [],
        "may_operate": can(viewer, "operate", None),
        "now": now,
    }
    part = "#lists" if request.GET.get("part") == "lists" else ""
    return render(request, f"home.html{part}", context)
