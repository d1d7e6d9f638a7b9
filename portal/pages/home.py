"""What of mine runs, what waits and why, what has ended; and what needs me."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.selectors import submittable_projects
from portal.pages.access import page, viewer_of
from portal.pages.job_rows import job_rows
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from portal.pages.welcome import setup_steps
from scheduler.models import Job
from scheduler.selectors.cluster import pool_summaries, troubled_nodes
from scheduler.selectors.composing.drafts import drafts_of
from scheduler.selectors.inbox import open_announcements
from scheduler.selectors.jobs import has_submitted, home_jobs
from scheduler.selectors.kept.demo import demo_since
from scheduler.selectors.saved.scopes import Scope
from scheduler.selectors.sessions import session_cards, visible_sessions
from scheduler.selectors.sessions.cards import SessionCard
from scheduler.selectors.sharing.bars import budget_bars, quota_bars

MOST_DRAFTS = 3


@page("GET")
def home(request: HttpRequest) -> HttpResponseBase:
    """`?part=lists` answers with the lists alone, for live updates."""
    viewer = viewer_of(request)
    now = timezone.now()
    if opened := opened_in_scope(request, viewer):
        return opened
    problems: list[str] = []
    scope = scope_here(request, viewer, problems)
    jobs = home_jobs(viewer, now=now, within=scope)
    rows = {row.job.pk: row for row in job_rows(viewer, jobs.everything, now=now)}
    projects = list(submittable_projects(viewer).filter(scope.part_of()))
    context = {
        "live": [rows[job.pk] for job in jobs.live],
        "sessions": _sessions(viewer, jobs.live, now),
        "waiting": [rows[job.pk] for job in jobs.waiting],
        "finished": [rows[job.pk] for job in jobs.finished],
        "is_empty": not jobs.everything,
        "is_new": not jobs.everything and not has_submitted(viewer),
        "projects": projects,
        "drafts": drafts_of(viewer)[:MOST_DRAFTS],
        "topics": " ".join(f"project:{project.pk}" for project in projects[:40]),
        "now": now,
        "problems": problems,
    }
    if request.GET.get("part") == "lists":
        return render(request, "home.html#lists", context)
    return render(request, "home.html", context | _around(viewer, now, scope))


def _sessions(viewer: User, live: Sequence[Job], now: datetime) -> list[SessionCard]:
    """Those of the live jobs that are sessions and run, the idlest first."""
    if not live:
        return []
    found = list(visible_sessions(viewer).filter(job__in=[job.pk for job in live]))
    cards = session_cards(viewer, found, now=now) if found else []
    return sorted((one for one in cards if one.idle_since), key=lambda one: -one.idle_percent)


def _around(viewer: User, now: datetime, scope: Scope) -> dict[str, object]:
    """What stands around the lists: announcements, one's quotas and budgets, pools; for operators
    nodes in trouble and first steps, for those who keep the books the way to them.
    """
    may_operate = can(viewer, "operate", None)
    steps = setup_steps(viewer) if may_operate else []
    return {
        "announcements": open_announcements(viewer, now=now),
        "quota_bars": quota_bars(viewer, now=now, within=scope),
        "budget_bars": budget_bars(viewer, now=now, within=scope),
        "may_read_books": can(viewer, "read_books", None),
        "pools": pool_summaries(viewer),
        "may_operate": may_operate,
        "troubled": troubled_nodes(viewer) if may_operate else [],
        "steps": steps,
        "demo_since": demo_since(),
        "steps_left": sum(not step.is_done for step in steps),
    }
