"""What one team pays for a GPU-hour."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.conf import load_conf
from scheduler.selectors.books.prices.team import prices_of_team

_PRICE: dict[str, Any] = {"max_digits": 18, "decimal_places": 6, "allow_null": True}


class PaidPriceShape(serializers.Serializer[Any]):
    """`price` is what the team pays now, by the `rate`, `paid_by` the `list` or a card;
    `listed` what the list asks. At `changes_at` it becomes `next_price`; null is no price."""

    device_model = serializers.CharField(source="model", allow_blank=True)
    kind = serializers.CharField(allow_blank=True)
    price = serializers.DecimalField(source="rate.price_per_gpu_hour", default=None, **_PRICE)
    rate = serializers.IntegerField(source="rate.pk", default=None, allow_null=True)
    since = serializers.DateTimeField(source="rate.valid_from", default=None, allow_null=True)
    paid_by = serializers.CharField(source="source", allow_blank=True)
    listed = serializers.DecimalField(**_PRICE)
    changes_at = serializers.DateTimeField(allow_null=True)
    next_price = serializers.DecimalField(**_PRICE)


class PaidPrices(Part):
    """By model and kind; a kind that is not named costs what the general one does."""

    currency = serializers.CharField()
    items = PaidPriceShape(many=True)


class TeamPrices(ApiView):
    """`/teams/<slug>/prices/`."""

    @operation(
        "team_prices",
        "What a team pays for a GPU-hour now and next, beside the list",
        scope="costs:read",
        query=PART_QUERY,
        reply=PaidPrices,
    )
    def get(self, request: Request, slug: str) -> Response:
        _, prices = prices_of_team(viewer_of(request), slug, now=timezone.now())
        part = part_of(request, prices, list, key=lambda one: f"{one.kind} {one.model}")
        return Response(PaidPrices({"currency": load_conf().currency, **part}).data)
