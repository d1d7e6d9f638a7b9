"""Costs by group and period, and the prices they come from."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Rate
from accounts.selectors.rates import current_rates, get_proposed_rate, proposed_rates
from accounts.services import decline_rate, propose_rate, set_rate
from portal.api.operations import ApiView, Query, body_of, choice, moment, operation
from portal.api.shapes import MONEY, viewer_of
from scheduler.conf import load_conf
from scheduler.selectors.usage import GROUPS, costs_by
from scheduler.services.books import approve_price, preview_price


class CostRow(serializers.Serializer[Any]):
    """One group's share."""

    key = serializers.CharField()
    gpu_seconds = serializers.IntegerField()
    cost = serializers.DecimalField(**MONEY)
    jobs = serializers.IntegerField()


class Costs(serializers.Serializer[Any]):
    """Charged so far in a period; `total` is the sum of the rows."""

    by = serializers.ChoiceField(tuple(GROUPS))
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    currency = serializers.CharField()
    items = CostRow(many=True)
    total = CostRow()


class RateShape(serializers.Serializer[Any]):
    """A price; the empty model is the fallback for devices without one of their own."""

    device_model = serializers.CharField(allow_blank=True)
    price_per_gpu_hour = serializers.DecimalField(max_digits=12, decimal_places=4)
    currency = serializers.CharField()
    valid_from = serializers.DateTimeField()
    decision = serializers.CharField()


class ProposedRate(RateShape):
    """A price that waits for a second person; `id` names it in the decision."""

    id = serializers.IntegerField()
    kind = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    proposed_by = serializers.CharField(source="proposed_by.username", allow_null=True)


class ProposedRates(serializers.Serializer[Any]):
    """What waits for a second person."""

    items = ProposedRate(many=True)


class MoveShape(serializers.Serializer[Any]):
    """A month's use of an account: in the books, with the price, and the difference."""

    month = serializers.CharField()
    account = serializers.CharField()
    name = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    change = serializers.CharField()


class PreviewShape(serializers.Serializer[Any]):
    """What would change, exact amounts; `trouble`: why it could not be counted."""

    at = serializers.DateTimeField()
    currency = serializers.CharField()
    trouble = serializers.CharField(allow_blank=True)
    moves = MoveShape(many=True)


class Rates(serializers.Serializer[Any]):
    """The prices in force now."""

    items = RateShape(many=True)


class RateBody(serializers.Serializer[Any]):
    """A new price, from now on unless `valid_from` says otherwise.

    Where others keep the books too, it is a proposal until one of them approves it.
    """

    device_model = serializers.CharField(max_length=96, allow_blank=True)
    price_per_gpu_hour = serializers.DecimalField(max_digits=12, decimal_places=4)
    currency = serializers.CharField(max_length=3, required=False)
    valid_from = serializers.DateTimeField(required=False)


class ProposalBody(RateBody):
    """A price for a second person to approve; for time that has passed with `restate`, and why."""

    kind = serializers.CharField(max_length=32, required=False, default="", allow_blank=True)
    restate = serializers.BooleanField(required=False, default=False)
    reason = serializers.CharField(max_length=255, required=False, default="", allow_blank=True)


class CostList(ApiView):
    """`/costs/`."""

    @operation(
        "costs_list",
        "What teams, projects, people or GPU models cost",
        scope="costs:read",
        query=[
            Query("by", str, "How to group.", choices=tuple(GROUPS)),
            Query("from", str, "First moment; the begin of this month by default."),
            Query("to", str, "First moment after it; now by default."),
        ],
        reply=Costs,
    )
    def get(self, request: Request) -> Response:
        now = timezone.now()
        month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        by = choice(request, "by", tuple(GROUPS), "team")
        start, end = moment(request, "from", month), moment(request, "to", now)
        rows, total = costs_by(viewer_of(request), by, start=start, end=end)
        shown = {
            "by": by,
            "start": start,
            "end": end,
            "currency": load_conf().currency,
            "items": rows,
            "total": total,
        }
        return Response(Costs(shown).data)


class RateList(ApiView):
    """`/rates/`."""

    @operation("rates_list", "Prices in force", scope="costs:read", reply=Rates)
    def get(self, request: Request) -> Response:
        return Response({"items": [_show_rate(rate) for rate in current_rates()]})

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
        reply=ProposedRates,
    )
    def get(self, request: Request) -> Response:
        return Response(ProposedRates({"items": proposed_rates(viewer_of(request))}).data)

    @operation(
        "rates_propose",
        "Propose a price, which somebody else approves (who keeps the books)",
        scope=None,
        body=ProposalBody,
        reply=ProposedRate,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent = {"currency": load_conf().currency, **body_of(request, ProposalBody)}
        rate = propose_rate(actor=viewer_of(request), **sent)
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
    )
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        found = preview_price(actor=viewer, rate=get_proposed_rate(viewer, pk))
        return Response(dict(PreviewShape(found).data))


class RateDecline(ApiView):
    """`/rates/<id>/decline/`."""

    @operation("rates_decline", "Turn a proposed price down", scope=None, reply=RateShape)
    def post(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        return Response(_show_rate(decline_rate(actor=viewer, rate=get_proposed_rate(viewer, pk))))


def _show_rate(rate: Rate) -> dict[str, Any]:
    return dict(RateShape(rate).data)
