"""Ends of prices and cards: proposed, then approved by a second person."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase

from accounts.errors import Invalid
from accounts.models import RateDecision, RateEnding
from accounts.selectors.rate_ends import get_ending
from accounts.selectors.rates import get_card_to_change, get_rate
from accounts.services import approve_end, decline_end, propose_end
from portal.forms.money.finance import EndForm
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide
from portal.pages.finance.prices import show_prices
from portal.pages.signing.again import asks_password
from scheduler.states import moment_words


@page("POST", back="finance:prices")
@asks_password
def price_end(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Propose to end a price, now or at a moment to come."""
    return _propose(request, rate=get_rate(viewer_of(request), pk))


@page("POST", back="finance:prices")
@asks_password
def card_end(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Propose to end a team's card with all its prices."""
    return _propose(request, card=get_card_to_change(viewer_of(request), pk))


@page("POST", back="finance:prices")
@asks_password
def end_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Approve a proposed end, or decline it."""
    viewer = viewer_of(request)
    if act not in ("approve", "decline"):
        raise Http404
    ending = get_ending(viewer, pk)

    def done() -> str:
        if act == "approve":
            held = approve_end(actor=viewer, ending=ending)
            return _ends(held)
        decline_end(actor=viewer, ending=ending)
        return "The end is declined; nothing changes."

    return decide(request, done, show_prices, "finance:prices")


def _ends(ending: RateEnding) -> str:
    """Of one that is approved: when it ends, and what follows."""
    when = f"on {moment_words(ending.ends_at)}" if ending.ends_at else "now"
    return f"It ends {when}. {ending.outcome}"


def _propose(request: HttpRequest, **what: Any) -> HttpResponseBase:
    viewer, form = viewer_of(request), EndForm(request.POST)

    def done() -> str:
        if not form.is_valid():
            raise Invalid(str(next(iter(form.errors.values()))[0]), field="valid_until")
        until = form.cleaned_data["valid_until"]
        ending = propose_end(actor=viewer, valid_until=until, **what)
        if ending.decision == RateDecision.APPROVED:
            return _ends(ending)
        return f"The end is proposed; another person has to approve it. {ending.outcome}"

    return decide(request, done, show_prices, "finance:prices")
