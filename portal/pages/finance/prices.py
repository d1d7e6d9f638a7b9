"""Prices: in force, proposed, and every one that was; a second person approves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.errors import Conflict, Forbidden
from accounts.models import RateCard, RateDecision, User
from accounts.permissions import can
from accounts.selectors.rate_ends import proposed_endings
from accounts.selectors.rates import (
    get_card_to_change,
    get_priced_team,
    get_proposed_rate,
    prices_in_force,
    proposed_and_decided,
    rate_cards,
    rates_of_cards,
)
from accounts.services import (
    approve_card,
    decline_card,
    decline_rate,
    draft_card,
    propose_card,
    propose_rate,
)
from portal.forms.money.finance import CardForm, PriceForm
from portal.pages.access import page, viewer_of
from portal.pages.finance.acting import decide, decide_by_form
from portal.pages.listing.leaves import leaf_of
from portal.pages.signing.again import asks_password
from portal.templatetags.measures import device_short_name
from scheduler.conf import load_conf
from scheduler.models import CountingAct
from scheduler.selectors.books.desk import price_countings, price_previews, require_reader
from scheduler.selectors.cluster import models_to_price
from scheduler.services.books import approve_price, count_behind, preview_price


@page("GET", "POST")
@asks_password
def price_list(request: HttpRequest) -> HttpResponseBase:
    """Prices and their history; POST proposes another."""
    viewer = viewer_of(request)
    require_reader(viewer)
    if request.method != "POST":
        return show_prices(request)

    def act(cleaned: dict[str, Any]) -> str:
        pk = cleaned.pop("card")
        cleaned["card"] = get_card_to_change(viewer, pk) if pk else None
        cleaned["priority"] = cleaned["priority"] or 0
        rate = propose_rate(actor=viewer, currency=load_conf().currency, **cleaned)
        if rate.decision == RateDecision.DRAFT:
            return "The price is on the card; propose the card once it is whole."
        return "The price is proposed; another person has to approve it."

    return decide_by_form(request, _form(viewer, request.POST), act, show_prices, "finance:prices")


@page("POST", back="finance:prices")
@asks_password
def price_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Approve a proposed price, or decline it; show what one for the past would move."""
    viewer = viewer_of(request)
    if act not in ("approve", "decline", "preview"):
        raise Http404
    rate, seen = get_proposed_rate(viewer, pk), request.POST.get("seen", "")

    def done() -> str:
        if act == "preview":
            if count_behind(actor=viewer, act=CountingAct.PREVIEW, rate=rate):
                return "What the price moves is being counted; this page shows it when it is known."
            preview_price(actor=viewer, rate=rate)
            return "What the price moves stands beside it; nothing is posted."
        if act == "approve":
            looked = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 19 else None
            if rate.is_restatement and looked is None:
                raise Conflict("Look first at what this price moves, then approve it.")
            approve_price(actor=viewer, rate=rate, seen=looked)
            return "The price is approved."
        decline_rate(actor=viewer, rate=rate)
        return "The price is declined."

    return decide(request, done, show_prices, "finance:prices")


@page("POST", back="finance:prices")
@asks_password
def card_new(request: HttpRequest) -> HttpResponseBase:
    """Draft a team's own rate card."""
    viewer = viewer_of(request)
    require_reader(viewer)

    def act(cleaned: dict[str, Any]) -> str:
        if not can(viewer, "keep_books", None):
            raise Forbidden("Only those who keep the books draft rate cards.")
        team = get_priced_team(viewer, cleaned.pop("team"))
        draft_card(actor=viewer, team=team, **cleaned)
        return "The card is drafted. Put prices on it, then propose it."

    def show(request: HttpRequest, *, status: int, form: CardForm) -> HttpResponse:
        return show_prices(request, status=status, card_form=form)

    return decide_by_form(request, CardForm(request.POST), act, show, "finance:prices")


@page("POST", back="finance:prices")
@asks_password
def card_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Propose a drafted card, approve a proposed one, or decline it."""
    viewer = viewer_of(request)
    acts = {
        "propose": (propose_card, "The card is proposed; another person has to approve it."),
        "approve": (approve_card, "The card is approved."),
        "decline": (decline_card, "The card is declined."),
    }
    if act not in acts:
        raise Http404
    card = get_card_to_change(viewer, pk)
    do, words = acts[act]

    def done() -> str:
        do(actor=viewer, card=card)
        return words

    return decide(request, done, show_prices, "finance:prices")


def _form(viewer: User, data: Any = None, *, cards: Sequence[RateCard] | None = None) -> PriceForm:
    models = models_to_price(viewer)
    open_ones = [
        (card.pk, f"{card.team}: {card.name}")
        for card in (_cards(viewer) if cards is None else cards)
        if card.decision in (RateDecision.DRAFT, RateDecision.APPROVED)
    ]
    form = PriceForm(
        data,
        models=[(model, device_short_name(model)) for model in models],
        cards=open_ones,
    )
    currency = load_conf().currency
    form.fields["price_per_gpu_hour"].help_text = f"In {currency}, at most 6 decimals."
    return form


def _cards(viewer: User) -> list[RateCard]:
    """Cards of teams that are not declined."""
    return [one for one in rate_cards(viewer).exclude(decision=RateDecision.DECLINED) if one.team]


def show_prices(
    request: HttpRequest,
    *,
    status: int = 200,
    form: PriceForm | None = None,
    card_form: CardForm | None = None,
) -> HttpResponse:
    """The page as it is now, with forms as they were sent."""
    viewer, now = viewer_of(request), timezone.now()
    waiting, history = proposed_and_decided(viewer)
    proposed = leaf_of(request, waiting, "waiting")
    previews = price_previews(viewer, proposed.rows)
    countings = price_countings(viewer, proposed.rows, now=now)
    cards = _cards(viewer)
    shown = leaf_of(request, cards, "cards", size=20)
    rates = rates_of_cards(viewer, shown.rows)
    context = {
        "current": leaf_of(request, prices_in_force(now=now), "current"),
        "proposed": proposed.made(
            lambda rate: (rate, previews.get(rate.pk), countings.get(rate.pk))
        ),
        "is_counting": any(row.is_waiting for row in countings.values()),
        "endings": leaf_of(request, proposed_endings(viewer), "ends"),
        "history": leaf_of(request, history, "history"),
        "may_act": can(viewer, "keep_books", None),
        "me": viewer.pk,
        "cards": shown.made(
            lambda card: (card, leaf_of(request, rates[card.pk], f"card-{card.pk}", size=50))
        ),
        "form": form or _form(viewer, cards=cards),
        "card_form": card_form or CardForm(),
        "now": now,
    }
    is_part = request.GET.get("part") == "proposed"
    template = "finance/months/_proposed_prices.html" if is_part else "finance/months/prices.html"
    return render(request, template, context, status=status)
