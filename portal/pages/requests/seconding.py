"""Cancels of many jobs, proposed by one person: the page that asks why, proposal and answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Invalid
from portal.pages.access import page, said_and_back, say_refused, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.models import BulkCancel
from scheduler.selectors.requesting.cancels import get_visible_cancel, jobs_named, left_of
from scheduler.services.seconding.counting import SecondNeeded
from scheduler.services.seconding.deciding import (
    agree_to_cancel,
    refuse_to_cancel,
    withdraw_cancel,
)
from scheduler.services.seconding.proposing import MAX_REASON
from scheduler.states.seconding import ALONE_AT_MOST

# Fields that a form brings by itself.
_OWN = frozenset({"csrfmiddlewaretoken", "reason"})


def done_or_proposed(
    request: HttpRequest,
    act: Callable[[], str],
    propose: Callable[[str], BulkCancel],
    *route: Any,
) -> HttpResponseBase:
    """As `said_and_back`; where a second person is needed, a page asks why and sends all that was
    sent once more, and what was said is proposed. `act` says nothing where nothing was done."""
    try:
        if words := act():
            messages.success(request, words)
    except SecondNeeded as needed:
        return _propose(request, needed, propose, *route)
    except DomainError as refused:
        say_refused(request, refused)
    return redirect(*route)


def _propose(
    request: HttpRequest,
    needed: SecondNeeded,
    propose: Callable[[str], BulkCancel],
    *route: Any,
) -> HttpResponseBase:
    if "reason" not in request.POST:
        return _ask_why(request, needed)
    try:
        made = propose(request.POST["reason"])
    except Invalid as refused:
        return _ask_why(request, needed, refused.detail)
    except DomainError as refused:
        say_refused(request, refused)
        return redirect(*route)
    messages.success(
        request, "Proposed. Nothing has ended yet; a second person was asked to agree."
    )
    return redirect("cancels:detail", made.pk)


def _ask_why(request: HttpRequest, needed: SecondNeeded, problem: str = "") -> HttpResponseBase:
    sent = [(name, one) for name, many in request.POST.lists() for one in many if name not in _OWN]
    context = {
        "needed": needed,
        "sent": sent,
        "reason": request.POST.get("reason", ""),
        "most": MAX_REASON,
        "problem": problem,
    }
    return render(request, "requests/why_cancel.html", context)


@page("GET")
def cancel_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """What was proposed, by whom and why, the jobs it names, and the answer."""
    viewer, now = viewer_of(request), timezone.now()
    seen = get_visible_cancel(viewer, pk, now=now)
    context = {
        "seen": seen,
        "proposal": seen.proposal,
        "left": left_of(viewer, seen.proposal),
        "rows": leaf_of(request, jobs_named(viewer, seen.proposal), "page"),
        "alone_at_most": ALONE_AT_MOST,
        "most": MAX_REASON,
        "now": now,
    }
    return render(request, "requests/cancel.html", context)


@page("POST")
def cancel_decide(request: HttpRequest, pk: int) -> HttpResponseBase:
    """`answer`: agree, refuse (with a reason) or withdraw."""
    viewer = viewer_of(request)
    proposal = get_visible_cancel(viewer, pk, now=timezone.now()).proposal

    def act() -> str:
        answer = request.POST.get("answer", "")
        if answer == "agree":
            done = agree_to_cancel(actor=viewer, proposal=proposal)
            more = f" {done.left_out} had ended before." if done.left_out else ""
            return f"Ended: {done.ended} of {done.named} jobs; what runs has time to save.{more}"
        if answer == "refuse":
            reason = request.POST.get("reason", "")
            refuse_to_cancel(actor=viewer, proposal=proposal, reason=reason)
            return "Refused. The jobs go on."
        if answer != "withdraw":
            raise Invalid("answer: choose agree, refuse or withdraw.", field="answer")
        withdraw_cancel(actor=viewer, proposal=proposal)
        return "Taken back. The jobs go on."

    return said_and_back(request, act, "cancels:detail", pk)
