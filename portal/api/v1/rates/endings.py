"""Ends of prices and cards: proposed by one person, approved by another."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import RateEnding
from accounts.selectors.rate_ends import get_ending, proposed_endings
from accounts.selectors.rates import get_card_to_change, get_rate
from accounts.services import approve_end, decline_end, propose_end
from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.rates.shapes import EndBody, Endings, EndingShape


class RateEnd(ApiView):
    """`/rates/<id>/end/`."""

    @operation(
        "rates_end",
        "Propose to end a price, now or at a moment to come",
        scope=None,
        body=EndBody,
        reply=EndingShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        sent = body_of(request, EndBody)
        return _show(propose_end(actor=viewer, rate=get_rate(viewer, pk), **sent))


class CardEnd(ApiView):
    """`/rates/cards/<id>/end/`."""

    @operation(
        "rate_cards_end",
        "Propose to end a team's card with all its prices",
        scope=None,
        body=EndBody,
        reply=EndingShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        sent = body_of(request, EndBody)
        return _show(propose_end(actor=viewer, card=get_card_to_change(viewer, pk), **sent))


class EndingList(ApiView):
    """`/rates/endings/`."""

    @operation(
        "rate_endings_list",
        "Ends of prices that wait for a second person",
        scope="costs:read",
        query=PART_QUERY,
        reply=Endings,
    )
    def get(self, request: Request) -> Response:
        found = proposed_endings(viewer_of(request))
        return Response(Endings(part_of(request, found, list)).data)


class EndingApprove(ApiView):
    """`/rates/endings/<id>/approve/`: 409 names who was faster."""

    @operation(
        "rate_endings_approve",
        "Approve an end somebody else proposed",
        scope=None,
        reply=EndingShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        return _decide(request, pk, approve_end)


class EndingDecline(ApiView):
    """`/rates/endings/<id>/decline/`."""

    @operation("rate_endings_decline", "Turn a proposed end down", scope=None, reply=EndingShape)
    def post(self, request: Request, pk: int) -> Response:
        return _decide(request, pk, decline_end)


def _decide(request: Request, pk: int, act: Any) -> Response:
    viewer = viewer_of(request)
    return _show(act(actor=viewer, ending=get_ending(viewer, pk)))


def _show(ending: RateEnding) -> Response:
    return Response(dict(EndingShape(ending).data))
