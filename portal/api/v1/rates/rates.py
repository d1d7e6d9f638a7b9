"""Prices and rate cards: seen, proposed, decided on, ended."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import Forbidden
from accounts.models import Rate, RateCard, User
from accounts.permissions import can
from accounts.selectors.rates import (
    current_rates,
    get_card_to_change,
    get_priced_team,
    get_proposed_rate,
    proposed_rates,
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
    set_rate,
)
from portal.api.operations import ApiView, Query, body_of, operation
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.rates.shapes import (
    CardBody,
    CardRate,
    Cards,
    CardShape,
    PreviewShape,
    ProposalBody,
    ProposedRate,
    ProposedRates,
    RateBody,
    Rates,
    RateShape,
)
from scheduler.conf import load_conf
from scheduler.models import CountingAct
from scheduler.selectors.books.desk import price_countings, price_previews
from scheduler.services.books import approve_price, count_behind, preview_price


def _found(viewer: User, rates: list[Rate]) -> dict[str, Any]:
    """What is known of what prices for the past would move; nobody else sees prices here."""
    if not rates:
        return {}
    countings = price_countings(viewer, rates, now=timezone.now())
    return {"previews": price_previews(viewer, rates), "countings": countings}


class RateList(ApiView):
    """`/rates/`."""

    @operation(
        "rates_list",
        "Prices in force",
        scope="costs:read",
        query=[
            Query("team", str, "What this team pays; the organisation's list by default."),
            *PART_QUERY,
        ],
        reply=Rates,
    )
    def get(self, request: Request) -> Response:
        slug = request.query_params.get("team", "")
        team = get_priced_team(viewer_of(request), slug) if slug else None
        return Response(
            part_of(
                request, current_rates(team=team), lambda found: [_show_rate(one) for one in found]
            )
        )

    @operation(
        "rates_create",
        "Set a price (administrators)",
        scope=None,
        body=RateBody,
        reply=RateShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent = body_of(request, RateBody)
        return Response(_show_rate(set_rate(actor=viewer_of(request), **sent)), status=201)


class RateProposals(ApiView):
    """`/rates/proposals/`."""

    @operation(
        "rates_proposals",
        "Prices that wait for a second person",
        scope="costs:read",
        query=PART_QUERY,
        reply=ProposedRates,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        part = part_of(request, proposed_rates(viewer), list)
        return Response(ProposedRates(part, context=_found(viewer, part["items"])).data)

    @operation(
        "rates_propose",
        "Propose a price, which somebody else approves (who keeps the books)",
        scope=None,
        body=ProposalBody,
        reply=ProposedRate,
        status=201,
    )
    def post(self, request: Request) -> Response:
        viewer = viewer_of(request)
        sent = {"currency": load_conf().currency, **body_of(request, ProposalBody)}
        card = sent.pop("card", None)
        # Who may not propose at all is told so before a card is looked for.
        is_asked = card is not None and can(viewer, "keep_books", None)
        found = get_card_to_change(viewer, card) if is_asked else None
        rate = propose_rate(actor=viewer, card=found, **sent)
        return Response(dict(ProposedRate(rate).data), status=201)


class RateApprove(ApiView):
    """`/rates/<id>/approve/`."""

    @operation(
        "rates_approve", "Approve a price somebody else proposed", scope=None, reply=RateShape
    )
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        return Response(_show_rate(approve_price(actor=viewer, rate=get_proposed_rate(viewer, pk))))


class RatePreview(ApiView):
    """`/rates/<id>/preview/`."""

    @operation(
        "rates_preview",
        "What a price for time that has passed would move in closed months; posts nothing",
        scope=None,
        reply=PreviewShape,
        replies={202: ProposedRate},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Large months are counted in the background: 202; ask the proposals until it is there."""
        viewer = viewer_of(request)
        rate = get_proposed_rate(viewer, pk)
        if count_behind(actor=viewer, act=CountingAct.PREVIEW, rate=rate):
            shown = ProposedRate(rate, context=_found(viewer, [rate]))
            return Response(dict(shown.data), status=202)
        return Response(dict(PreviewShape(preview_price(actor=viewer, rate=rate)).data))


class RateDecline(ApiView):
    """`/rates/<id>/decline/`."""

    @operation("rates_decline", "Turn a proposed price down", scope=None, reply=RateShape)
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        return Response(_show_rate(decline_rate(actor=viewer, rate=get_proposed_rate(viewer, pk))))


class RateCards(ApiView):
    """`/rates/cards/`."""

    @operation(
        "rate_cards_list",
        "Rate cards and their prices",
        scope="costs:read",
        query=PART_QUERY,
        reply=Cards,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        part = part_of(request, rate_cards(viewer), lambda cards: _show_cards(viewer, cards))
        return Response(part)

    @operation(
        "rate_cards_create",
        "Draft a team's own rate card (who keeps the books)",
        scope=None,
        body=CardBody,
        reply=CardShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        viewer, sent = viewer_of(request), body_of(request, CardBody)
        slug = sent.pop("team")
        if not can(viewer, "keep_books", None):
            raise Forbidden("Only those who keep the books draft rate cards.")
        team = get_priced_team(viewer, slug)
        return Response(
            dict(CardShape(draft_card(actor=viewer, team=team, **sent)).data), status=201
        )


def _show_cards(viewer: User, cards: list[RateCard]) -> list[dict[str, Any]]:
    rates = rates_of_cards(viewer, cards)
    return [
        CardShape(card).data | {"rates": CardRate(rates[card.pk], many=True).data} for card in cards
    ]


class CardPropose(ApiView):
    """`/rates/cards/<id>/propose/`."""

    @operation("rate_cards_propose", "Propose a rate card", scope=None, reply=CardShape)
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        card = propose_card(actor=viewer, card=get_card_to_change(viewer, pk))
        return Response(dict(CardShape(card).data))


class CardApprove(ApiView):
    """`/rates/cards/<id>/approve/`."""

    @operation("rate_cards_approve", "Approve a proposed rate card", scope=None, reply=CardShape)
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        card = approve_card(actor=viewer, card=get_card_to_change(viewer, pk))
        return Response(dict(CardShape(card).data))


class CardDecline(ApiView):
    """`/rates/cards/<id>/decline/`."""

    @operation("rate_cards_decline", "Turn a rate card down", scope=None, reply=CardShape)
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        card = decline_card(actor=viewer, card=get_card_to_change(viewer, pk))
        return Response(dict(CardShape(card).data))


def _show_rate(rate: Rate) -> dict[str, Any]:
    return dict(RateShape(rate).data)
