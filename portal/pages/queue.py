"""The waiting line of a pool: one's own jobs in full, others as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from accounts.permissions import can
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.scope.narrowing import opened_in_scope, scope_here
from scheduler.selectors.cluster import get_visible_pool, pool_summaries
from scheduler.selectors.queues import QueueRow, queue_rows, queues_of
from scheduler.services.queues import pause_queue, resume_queue
from scheduler.states import Tier


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the page: one job that may be named, or a run of others of one tier."""

    first: int
    last: int
    row: QueueRow
    tier: str
    jobs: int
    gpus: int


def lines_of(rows: Iterable[QueueRow]) -> list[Line]:
    """Neighbouring jobs of other teams in the same tier become one line."""
    lines: list[Line] = []
    for row in rows:
        tier = Tier(row.tier).name.lower()
        last = lines[-1] if lines else None
        if row.job is None and last and last.row.job is None and last.tier == tier:
            lines[-1] = Line(
                last.first, row.position, last.row, tier, last.jobs + 1, last.gpus + row.gpus
            )
        else:
            lines.append(Line(row.position, row.position, row, tier, 1, row.gpus))
    return lines


@page("GET")
def queue_list(request: HttpRequest) -> HttpResponseBase:
    """`?pool=` chooses the line; the first pool by default."""
    viewer = viewer_of(request)
    if opened := opened_in_scope(request, viewer):
        return opened
    summaries = pool_summaries(viewer)
    asked = request.GET.get("pool", "")
    chosen = next((s for s in summaries if s.pool.name == asked), None)
    problems: list[str] = []
    scope = scope_here(request, viewer, problems)
    if asked and chosen is None:
        problems.append(f"pool: there is no pool {asked[:63]!r}; choose one of those below.")
    chosen = chosen or max(summaries, key=lambda s: s.queued, default=None)
    rows = queue_rows(viewer, chosen.pool) if chosen else []
    if scope:  # the line stays whole: who is outside the scope is counted with the others
        hidden = [row.job is not None and not scope.covers(row.job.project) for row in rows]
        rows = [replace(r, job=None) if h else r for r, h in zip(rows, hidden, strict=True)]
    context = {
        "summaries": summaries,
        "chosen": chosen,
        "lines": lines_of(rows),
        "shown": len(rows),
        "mine": [row for row in rows if row.job is not None and row.job.owner_id == viewer.pk],
        "queues": queues_of(viewer, chosen.pool) if chosen else [],
        "may_operate": can(viewer, "operate", None),
        "problems": problems,
        "unknown": unknown_parameters(request.GET, ("pool", "part", "scope")),
        "now": timezone.now(),
    }
    part = "#line" if request.GET.get("part") == "line" else ""
    return render(request, f"queue/list.html{part}", context)


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
