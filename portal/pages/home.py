"""What of mine runs, what waits and why, what has ended; and what needs me."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from portal.pages.access import page, viewer_of
from portal.pages.job_rows import JobRow, rows_and_sets
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from portal.pages.welcome import setup_steps
from portal.reports.windows import draw_windows
from scheduler.models import Job
from scheduler.selectors.cluster import pool_summaries, troubled_nodes
from scheduler.selectors.saved.scopes import Scope
from scheduler.selectors.sessions import session_cards, visible_sessions
from scheduler.selectors.sessions.cards import SessionCard
from scheduler.selectors.sharing.bars import budget_bars, quota_bars
from scheduler.selectors.tables.around import MOST_TOPICS
from scheduler.selectors.tables.beginning import beginning_of
from scheduler.selectors.tables.home import beside_jobs, home_jobs


@page("GET")
def home(request: HttpRequest) -> HttpResponseBase:
    """`?part=lists` and `?part=side` answer with the lists or what stands beside, for updates."""
    viewer = viewer_of(request)
    now = timezone.now()
    if opened := opened_in_scope(request, viewer):
        return opened
    problems: list[str] = []
    scope = scope_here(request, viewer, problems)
    beside = beside_jobs(viewer, scope, now=now)
    if request.GET.get("part") == "side":
        side = {"projects": beside.projects, "now": now, **_around(viewer, now, scope)}
        return render(request, "home.html#side", side)
    jobs = home_jobs(viewer, now=now, within=scope)
    rows = {
        row.job.pk: row for row in rows_and_sets(viewer, jobs.everything, now=now, known=jobs.told)
    }
    live = [rows[job.pk] for job in jobs.live]
    waiting = [rows[job.pk] for job in jobs.waiting]
    windows, axis = draw_windows([(row.start_p50, row.start_p90) for row in waiting], now=now)
    hourly = [row.hourly for row in live if row.hourly is not None]
    context = {
        "live": live,
        "live_gpus": sum(map(_gpus_now, live)),
        "live_hourly": sum(hourly) if hourly else None,
        "sessions": _sessions(viewer, jobs.live, now),
        "waiting": list(zip(waiting, windows, strict=True)),
        "axis": axis,
        "finished": [rows[job.pk] for job in jobs.finished],
        "cut": jobs.cut,
        "is_empty": not jobs.everything,
        "is_new": not jobs.everything and not beside.has_submitted,
        "projects": beside.projects,
        "drafts": beside.drafts,
        "decided": beside.decided,
        "topics": " ".join(f"project:{project.pk}" for project in beside.projects[:MOST_TOPICS]),
        "now": now,
        "problems": problems,
    }
    if request.GET.get("part") == "lists":
        return render(request, "home.html#lists", context)
    told = {"announcements": beside.announcements, "led": beside.led}
    return render(request, "home.html", context | told | _around(viewer, now, scope))


def _gpus_now(row: JobRow) -> int:
    """Of an array that of all its tasks that run."""
    return row.job.gpus * (1 if row.view is None else row.view.live)


def _sessions(viewer: User, live: Sequence[Job], now: datetime) -> list[SessionCard]:
    """Those of the live jobs that are sessions and run, the idlest first."""
    if not live:
        return []
    found = list(visible_sessions(viewer).filter(job__in=[job.pk for job in live]))
    cards = session_cards(viewer, found, now=now) if found else []
    return sorted((one for one in cards if one.idle_since), key=lambda one: -one.idle_percent)


def _around(viewer: User, now: datetime, scope: Scope) -> dict[str, object]:
    """What stands around the lists: one's quotas and budgets, pools; for operators
    nodes in trouble and first steps, for those who keep the books the way to them.
    """
    may_operate = can(viewer, "operate", None)
    beginning = beginning_of(viewer, now=now) if may_operate else None
    steps = setup_steps(beginning, beginning.has_price) if beginning else []
    pools = pool_summaries(viewer)
    return {
        "quota_bars": quota_bars(viewer, now=now, within=scope),
        "budget_bars": budget_bars(viewer, now=now, within=scope),
        "may_read_books": can(viewer, "read_books", None),
        "pools": pools,
        "cluster": {
            "total": sum(one.total for one in pools),
            "held": sum(one.allocated for one in pools),
            "down": sum(one.down for one in pools),
            "queued": sum(one.queued for one in pools),
            "queues": sum(one.queued > 0 for one in pools),
        },
        "may_operate": may_operate,
        "troubled": troubled_nodes(viewer) if may_operate else [],
        "steps": steps,
        "steps_left": sum(not step.is_done for step in steps),
    }
