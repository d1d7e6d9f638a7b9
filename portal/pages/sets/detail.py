"""One array: how far it is, its tasks, and its two buttons."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import Conflict
from accounts.models import User
from portal.forms.filters import unknown_parameters
from portal.pages.access import choice, page, said_and_back, viewer_of
from portal.pages.changing.reasons import reason_in
from portal.pages.job_rows import rows_of_set
from portal.pages.listing.columns import USUAL, Chosen
from portal.pages.seconding import done_or_proposed
from portal.pages.sets.grid import grid_picture, tasks_of_a_square
from scheduler.models import BulkCancel
from scheduler.selectors.people.watchers import own_watch
from scheduler.selectors.sets import (
    SetView,
    get_set_in_full,
    get_visible_set,
    set_actions,
    tasks_of,
)
from scheduler.services.seconding.proposing import propose_to_cancel_set
from scheduler.services.sets import cancel_set, rerun_failed
from scheduler.spec import SpecInvalid
from scheduler.states.seconding import ALONE_AT_MOST

PAGE_SIZE = 50
_LAST = 10**9


@page("GET")
def set_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The sums of the array and its tasks by index, so many at a time; `?from=` is an index."""
    viewer, now = viewer_of(request), timezone.now()
    found = get_set_in_full(viewer, pk)
    job_set = found.job_set
    asked = request.GET.get("from", "")
    is_index = asked.isascii() and asked.isdigit() and len(asked) < 10
    first = int(asked) if is_index else int(choice(request, "from", (), "0"))
    tasks = list(tasks_of(viewer, job_set).filter(array_index__gte=first)[: PAGE_SIZE + 1])
    rows, view = rows_of_set(viewer, found, tasks[:PAGE_SIZE], now=now)
    context = {
        "view": view,
        "job_set": job_set,
        "actions": set_actions(viewer, view),
        "counts": [(str(state), count) for state, count in view.counts.items() if count],
        "grid": grid_picture(found.states),
        "of_a_square": tasks_of_a_square(job_set.size),
        "columns": Chosen(USUAL),
        "rows": rows,
        "next_from": tasks[PAGE_SIZE].array_index if len(tasks) > PAGE_SIZE else None,
        "is_first": not first,
        "reruns": found.reruns,
        "proposals": found.proposals,
        "waiters": found.waiters,
        "watchers": [one.name for one in found.watchers],
        "watch": own_watch(viewer, found.watchers),
        "alone_at_most": ALONE_AT_MOST,
        "takes_two": _takes_two(viewer, view),
        "unknown": unknown_parameters(request.GET, ("from", "part")),
        "now": now,
    }
    template = "sets/detail.html"
    return render(request, f"{template}#live" if request.GET.get("part") else template, context)


def _takes_two(viewer: User, view: SetView) -> bool:
    """Whether ending it surely needs a second person; what the viewer ended lately counts, too, and
    is looked at when the button is pressed."""
    left = view.job_set.size - view.finished
    return view.job_set.owner_id != viewer.pk and left > ALONE_AT_MOST


@page("POST")
def set_cancel(request: HttpRequest, pk: int) -> HttpResponseBase:
    """End every task that has not ended, or propose it to a second person."""
    viewer = viewer_of(request)
    job_set = get_visible_set(viewer, pk)

    def act() -> str:
        tasks = cancel_set(actor=viewer, job_set=job_set, reason=reason_in(request))
        if not tasks:
            return f"All tasks of array {pk} had ended before."
        return f"Array {pk}: {tasks} tasks are cancelled or have time to save their work."

    def propose(reason: str) -> BulkCancel:
        return propose_to_cancel_set(actor=viewer, job_set=job_set, reason=reason)

    return done_or_proposed(request, act, propose, "sets:detail", pk, verb=f"Cancel array {pk}")


@page("POST")
def set_rerun(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Run the failed tasks again, as a new array; its page follows."""
    viewer = viewer_of(request)
    job_set = get_visible_set(viewer, pk)
    made: list[int] = []

    def act() -> str:
        try:
            again = rerun_failed(actor=viewer, job_set=job_set)
        except SpecInvalid as refused:
            raise Conflict(f"It cannot be submitted again as it was. {refused}") from None
        made.append(again.pk)
        return f"Array {again.pk} runs the {again.size} failed tasks of array {pk} again."

    answer = said_and_back(request, act, "sets:detail", pk)
    return redirect("sets:detail", made[0]) if made else answer
