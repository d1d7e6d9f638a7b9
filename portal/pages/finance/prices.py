"""Prices: in force, proposed, and every one that was; a second person approves."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.selectors.rates import current_rates, get_proposed_rate, proposed_rates, rate_history
from accounts.services import decline_rate, propose_rate
from portal.forms.money.finance import PriceForm
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide, decide_by_form
from portal.templatetags.measures import device_short_name
from scheduler.conf import load_conf
from scheduler.selectors.books.desk import price_previews, require_reader
from scheduler.selectors.cluster import models_to_price
from scheduler.services.books import approve_price, preview_price


@page("GET", "POST")
def price_list(request: HttpRequest) -> HttpResponseBase:
    """Prices and their history; POST proposes another."""
    viewer = viewer_of(request)
    require_reader(viewer)
    if request.method != "POST":
        return _show(request)

    def act(cleaned: dict[str, Any]) -> str:
        propose_rate(actor=viewer, currency=load_conf().currency, **cleaned)
        return "The price is proposed; another person has to approve it."

    return decide_by_form(request, _form(viewer, request.POST), act, _show, "finance:prices")


@page("POST")
def price_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Approve a proposed price, or decline it; show what one for the past would move."""
    viewer = viewer_of(request)
    if act not in ("approve", "decline", "preview"):
        raise Http404
    rate, seen = get_proposed_rate(viewer, pk), request.POST.get("seen", "")

    def done() -> str:
        if act == "preview":
            preview_price(actor=viewer, rate=rate)
            return "What the price moves stands beside it; nothing is posted."
        if act == "approve":
            looked = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 19 else None
            approve_price(actor=viewer, rate=rate, seen=looked)
            return "The price is approved."
        decline_rate(actor=viewer, rate=rate)
        return "The price is declined."

    return decide(request, done, _show, "finance:prices")


def _form(viewer: User, data: Any = None) -> PriceForm:
    models = models_to_price(viewer)
    return PriceForm(data, models=[(model, device_short_name(model)) for model in models])


def _show(
    request: HttpRequest, *, status: int = 200, form: PriceForm | None = None
) -> HttpResponse:
    viewer, now = viewer_of(request), timezone.now()
    proposed = list(proposed_rates(viewer))
    previews = price_previews(viewer, proposed)
    context = {
        "current": current_rates(now=now),
        "proposed": [(rate, previews.get(rate.pk)) for rate in proposed],
        "history": rate_history(viewer),
        "may_act": can(viewer, "keep_books", None),
        "me": viewer.pk,
        "form": form or _form(viewer),
        "currency": load_conf().currency,
        "now": now,
    }
    return render(request, "finance/prices.html", context, status=status)
