"""The waiting line of a pool: one's own jobs in full, others as numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, pool_asked, said_and_back, viewer_of
from portal.pages.queue import days
from portal.pages.queue.days import days_picture
from portal.pages.queue.rows import draw_rows, lines_of, with_turns
from portal.pages.queue.week import LEGEND, week_picture, week_table
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from scheduler.models import Pool
from scheduler.selectors.cluster import get_visible_pool, pool_summaries
from scheduler.selectors.queues import QueueRow, own_rows_behind, queue_rows, queues_of
from scheduler.selectors.saved.scopes import Scope
from scheduler.selectors.waits.deciding import last_decided
from scheduler.selectors.waits.hours import DAYS, wait_history
from scheduler.services.changing.turns import why_no_turns
from scheduler.services.queues import pause_queue, resume_queue


@page("GET")
def queue_list(request: HttpRequest) -> HttpResponseBase:
    """`?pool=` chooses the line; the first pool by default."""
    viewer = viewer_of(request)
    if opened := opened_in_scope(request, viewer):
        return opened
    summaries = pool_summaries(viewer)
    problems: list[str] = []
    scope = scope_here(request, viewer, problems)
    by_name = {summary.pool.name: summary for summary in summaries}
    chosen = pool_asked(request, by_name, problems, "choose one of those below")
    chosen = chosen or max(summaries, key=lambda s: s.queued, default=None)
    rows = queue_rows(viewer, chosen.pool) if chosen else []
    if scope:  # the line stays whole: who is outside the scope is counted with the others
        hidden = [row.job is not None and not scope.covers(row.job.project) for row in rows]
        rows = [replace(r, job=None) if h else r for r, h in zip(rows, hidden, strict=True)]
    behind, more = list[QueueRow](), 0
    if chosen and len(rows) < chosen.queued:
        behind, more = _behind(viewer, chosen.pool, rows, scope)
    me = viewer.pk
    own = [row.job for row in (*rows, *behind) if row.job is not None]
    mine = [job for job in own if job.owner_id == me]
    lines, now = with_turns([*lines_of(rows), *lines_of(behind)], me), timezone.now()
    # Asked whether the viewer has several jobs here or not: a page costs the same for everybody.
    no_turns = why_no_turns(chosen.pool) if chosen else ""
    takes_turns = len(mine) > 1 and not no_turns
    context: dict[str, Any] = {
        "summaries": summaries,
        "chosen": chosen,
        "lines": lines,
        "drawn": draw_rows(lines, now, with_turns=takes_turns, outside=scope.name, owner=me),
        "shown": len(rows),
        "behind": len(behind),
        "more": more,
        "mine": len(mine) + more,
        "takes_turns": takes_turns,
        "no_turns": no_turns if len(mine) > 1 else "",
        "have_yielded": any(job.yielded_from for job in mine),
        "may_operate": can(viewer, "operate", None),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, ("pool", "part", "scope")),
        "now": now,
        "decided": last_decided(viewer, now=now),
    }
    if request.GET.get("part") == "line":
        return render(request, "queue/list.html#line", context)
    if chosen:
        context |= _waited(viewer, chosen.pool)
    return render(request, "queue/list.html", context)


def _behind(
    viewer: User, pool: Pool, rows: list[QueueRow], scope: Scope
) -> tuple[list[QueueRow], int]:
    """One's own jobs after these rows, and how many more there are; of a narrowed page those are
    not counted."""
    found, count = own_rows_behind(viewer, pool, rows)
    if not scope:
        return found, count - len(found)
    return [row for row in found if row.job and scope.covers(row.job.project)], 0


def _waited(viewer: User, pool: Pool) -> dict[str, Any]:
    """How long people have waited for a pool; empty before its first whole hour."""
    history = wait_history(viewer, pool, zone=timezone.get_current_timezone())
    if history is None:
        return {}
    return {
        "history": history,
        "spans": [("Last 24 hours", history.day), ("Last 7 days", history.week)],
        "days_picture": days_picture(history),
        "days_legend": days.LEGEND,
        "picture": week_picture(history.cells),
        "legend": LEGEND,
        "days": DAYS,
        "table": week_table(history),
        "zone": timezone.get_current_timezone_name(),
        "half": timezone.localtime(history.until).minute,
    }


@page("POST")
def queue_pause(request: HttpRequest, pool: str) -> HttpResponseBase:
    """Take jobs but start none, in every queue of the pool."""
    return _switch(request, pool, is_paused=True)


@page("POST")
def queue_resume(request: HttpRequest, pool: str) -> HttpResponseBase:
    """Start jobs again."""
    return _switch(request, pool, is_paused=False)


def _switch(request: HttpRequest, pool_name: str, *, is_paused: bool) -> HttpResponseBase:
    viewer = viewer_of(request)
    pool = get_visible_pool(viewer, pool_name)

    def act() -> str:
        for queue in queues_of(viewer, pool):
            if is_paused:
                pause_queue(actor=viewer, queue=queue)
            else:
                resume_queue(actor=viewer, queue=queue)
        if is_paused:
            return f"Queue {pool.name} is paused: jobs may be submitted, none is started."
        return f"Queue {pool.name} starts jobs again."

    return said_and_back(request, act, f"{reverse('queue:list')}?pool={pool.name}")
