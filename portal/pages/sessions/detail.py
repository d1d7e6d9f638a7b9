"""One session: its card, and the buttons to get in, to keep it and to stop it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from accounts.errors import Conflict
from portal.forms.filters import unknown_parameters
from portal.pages.access import WhileIn, outlived, page, said_and_back, viewer_of
from portal.pages.changing.reasons import reason_in
from portal.pages.seconding import done_or_proposed
from scheduler.conf import load_conf
from scheduler.models import BulkCancel
from scheduler.selectors.jobs import end_sentence_of, wait_sentence_of
from scheduler.selectors.sessions import get_visible_session, session_cards
from scheduler.selectors.waits.deciding import last_decided
from scheduler.services.jobs import cancel_job
from scheduler.services.seconding.proposing import propose_to_cancel_jobs
from scheduler.services.sessions import issue_ticket, keep_session
from scheduler.states import FINAL_JOB_STATES, WAITING_JOB_STATES, JobState
from scheduler.wire.sessions import path_of


@page("GET")
def session_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """How it is, what is left, and how to get in. `?part=live` is the card alone."""
    viewer, now = viewer_of(request), timezone.now()
    session = get_visible_session(viewer, pk)
    [card] = session_cards(viewer, [session], now=now)
    job = session.job
    context = {
        "card": card,
        "job": job,
        "sentence": end_sentence_of(job) if job.state in FINAL_JOB_STATES else "",
        "waits": wait_sentence_of(job) if job.state in WAITING_JOB_STATES else "",
        "decided": last_decided(viewer, now=now) if job.state == JobState.QUEUED else None,
        "unknown": unknown_parameters(request.GET, ("part", "above")),
        "now": now,
        "is_part": bool(request.GET.get("part")),
        **outlived(request, job.state),
    }
    template = "sessions/detail.html"
    return render(request, f"{template}#live" if request.GET.get("part") else template, context)


@never_cache
@page("POST")
def session_connect(request: HttpRequest, pk: int) -> HttpResponseBase:
    """A ticket for this once, and on to the session with it."""
    viewer = viewer_of(request)
    session = get_visible_session(viewer, pk)
    try:
        ticket = issue_ticket(actor=viewer, session=session)
    except Conflict as refused:
        detail = refused.detail

        def act() -> str:
            raise Conflict(detail)

        return said_and_back(request, act, "sessions:detail", pk)
    return redirect(f"{load_conf().session_origin}{path_of(pk)}?ticket={ticket}")


@page("POST")
def session_keep(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Set the idle clock back."""
    viewer = viewer_of(request)
    session = get_visible_session(viewer, pk)

    def act() -> str:
        keep_session(actor=viewer, session=session)
        return "The idle clock starts anew."

    return said_and_back(request, act, "sessions:detail", pk)


@page("POST")
def session_stop(request: HttpRequest, pk: int) -> HttpResponseBase:
    """End it, as any job."""
    viewer = viewer_of(request)
    session = get_visible_session(viewer, pk)

    def act() -> str:
        after = cancel_job(actor=viewer, job=session.job, reason=reason_in(request))
        if after.ended_at is not None:
            return f"Session {pk} has ended."
        return WhileIn(after.state, f"Session {pk} is being stopped.")

    def propose(reason: str) -> BulkCancel:
        return propose_to_cancel_jobs(actor=viewer, jobs=[session.job], reason=reason)

    return done_or_proposed(request, act, propose, "sessions:detail", pk, verb=f"Stop session {pk}")
