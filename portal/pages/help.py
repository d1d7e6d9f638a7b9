"""Help, and the styleguide for those who build pages."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render

from accounts.errors import NotFound
from portal.pages.access import page, viewer_of
from portal.pages.showcase import showcase
from scheduler.states import WAIT_SENTENCES, JobState, WaitReason

_STATES = {
    JobState.HELD: "waits for a person to release it",
    JobState.QUEUED: "waits for the scheduler; its page says why",
    JobState.STARTING: "has its GPUs; the nodes prepare code and folders",
    JobState.RUNNING: "runs on all its nodes",
    JobState.STOPPING: "was asked to stop; its grace time runs",
    JobState.SUCCEEDED: "ended with exit code 0 and its log is complete",
    JobState.FAILED: "ended otherwise; its page says how and what to do",
    JobState.CANCELLED: "was ended by a person",
}


@page("GET")
def help_page(request: HttpRequest) -> HttpResponseBase:
    """Words, first steps, the command line and the API."""
    reasons = [(str(reason), WAIT_SENTENCES[reason]) for reason in WaitReason]
    context = {"states": _STATES.items(), "reasons": reasons, "address": settings.PUBLIC_URL}
    return render(request, "help/help.html", context)


@page("GET")
def styleguide(request: HttpRequest) -> HttpResponseBase:
    """Every part once; staff only."""
    if not viewer_of(request).is_staff:
        raise NotFound()
    return render(request, "styleguide.html", showcase())
