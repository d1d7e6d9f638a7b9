"""A cancel of many jobs that needs a second person: the page that asks why, and the proposal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render

from accounts.errors import DomainError, Invalid
from portal.pages.access import say, say_refused
from portal.pages.changing.reasons import asked_or_said, reason_in, sent_before
from scheduler.models import BulkCancel
from scheduler.services.holding.alone import SecondNeeded
from scheduler.states import MOST_REASON


def done_or_proposed(
    request: HttpRequest,
    act: Callable[[], str],
    propose: Callable[[str], BulkCancel],
    *route: Any,
    verb: str,
) -> HttpResponseBase:
    """As `done_or_asked`; where a second person is needed, a page asks why and sends all that was
    sent once more, and what was said is proposed. `act` says nothing where nothing was done."""
    try:
        if words := act():
            say(request, words)
    except SecondNeeded as needed:
        return _propose(request, needed, propose, *route)
    except DomainError as refused:
        return asked_or_said(request, refused, *route, verb=verb)
    return redirect(*route)


def _propose(
    request: HttpRequest,
    needed: SecondNeeded,
    propose: Callable[[str], BulkCancel],
    *route: Any,
) -> HttpResponseBase:
    # A reason for the owner alone is no wish to ask somebody else.
    if "propose" not in request.POST:
        return _ask_why(request, needed)
    try:
        made = propose(reason_in(request))
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
    context = {
        "needed": needed,
        "sent": sent_before(request),
        "reason": reason_in(request),
        "most": MOST_REASON,
        "problem": problem,
    }
    return render(request, "requests/why_cancel.html", context)
