"""A word for the owner of somebody else's job: the page that asks for it, and does it then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render, resolve_url

from accounts.errors import DomainError, Invalid
from portal.pages.access import say, say_refused
from scheduler.states import MOST_REASON

# Fields that a form brings by itself.
OWN = frozenset({"csrfmiddlewaretoken", "reason", "propose"})


def reason_in(request: HttpRequest) -> str:
    """What was typed; "" for nothing."""
    return request.POST.get("reason", "")


def sent_before(request: HttpRequest) -> list[tuple[str, str]]:
    """Names and values of a form, to be sent once more by the one that asks."""
    return [(name, one) for name, many in request.POST.lists() for one in many if name not in OWN]


def done_or_asked(
    request: HttpRequest, act: Callable[[], str], *route: Any, verb: str
) -> HttpResponseBase:
    """As `said_and_back`; where a reason is needed, or what was typed is none, a page asks for it,
    says what is wrong and sends all that was sent once more. `verb` stands on its button."""
    try:
        if words := act():
            say(request, words)
    except DomainError as refused:
        return asked_or_said(request, refused, *route, verb=verb)
    return redirect(*route)


def asked_or_said(
    request: HttpRequest, refused: DomainError, *route: Any, verb: str
) -> HttpResponseBase:
    """What follows a refusal: the page that asks, or `route` with what was wrong above it."""
    if isinstance(refused, Invalid) and refused.field == "reason":
        return _ask(request, refused, *route, verb=verb)
    say_refused(request, refused)
    return redirect(*route)


def _ask(request: HttpRequest, refused: Invalid, *route: Any, verb: str) -> HttpResponseBase:
    """The page that asks; 422 where something was typed that is no reason."""
    is_wrong = "reason" in request.POST
    context = {
        "verb": verb,
        "sent": sent_before(request),
        "reason": reason_in(request),
        "most": MOST_REASON,
        "problem": refused.detail if is_wrong else "",
        "back": resolve_url(*route),
    }
    return render(request, "jobs/answers/reason.html", context, status=422 if is_wrong else 200)
