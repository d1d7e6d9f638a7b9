"""Watching the job or array of another, on its page or on one's own list."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone

from portal.pages.access import page, said_and_back, viewer_of
from scheduler.services.inbox.watching import unwatch_job, unwatch_set, watch_job, watch_set


@page("POST")
def job_watch(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Watch it, of a task its array, with `also` of its start or limits; with `stop`, no more."""
    return _answer(request, "jobs:detail", pk, watch_job, unwatch_job)


@page("POST")
def set_watch(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The same of an array."""
    return _answer(request, "sets:detail", pk, watch_set, unwatch_set)


def _answer(
    request: HttpRequest,
    route: str,
    pk: int,
    watch: Callable[..., None],
    unwatch: Callable[..., None],
) -> HttpResponseBase:
    viewer = viewer_of(request)

    def act() -> str:
        if "stop" in request.POST:
            unwatch(actor=viewer, pk=pk)
            return "You no longer watch it."
        # A form that was loaded before there was a choice takes none away.
        also = request.POST.getlist("also") if "chosen" in request.POST else None
        watch(actor=viewer, pk=pk, also=also, now=timezone.now())
        return "You watch it: you are told of it as its owner is, as your own settings say."

    # From the list of all that one watches, back to it.
    if "listed" in request.POST:
        return said_and_back(request, act, "notification_settings")
    return said_and_back(request, act, route, pk)
