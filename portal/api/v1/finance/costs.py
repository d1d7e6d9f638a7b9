"""Costs by group and period."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, Query, choice, moment, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import MONEY, viewer_of
from scheduler.conf import load_conf
from scheduler.selectors.sharing.use import NAMES
from scheduler.selectors.usage import costs_by


class CostRow(serializers.Serializer[Any]):
    """One group's share."""

    key = serializers.CharField()
    gpu_seconds = serializers.IntegerField()
    cost = serializers.DecimalField(**MONEY)
    jobs = serializers.IntegerField()


class Costs(Part):
    """Charged so far in a period; `total` is the sum of all rows."""

    by = serializers.ChoiceField(tuple(NAMES))
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    currency = serializers.CharField()
    items = CostRow(many=True)
    total = CostRow()


class CostList(ApiView):
    """`/costs/`."""

    @operation(
        "costs_list",
        "What teams, projects, people or GPU models cost",
        scope="costs:read",
        query=[
            Query("by", str, "How to group.", choices=tuple(NAMES)),
            Query("from", str, "First moment; the begin of this month by default."),
            Query("to", str, "First moment after it; now by default."),
            *PART_QUERY,
        ],
        reply=Costs,
    )
    def get(self, request: Request) -> Response:
        now = timezone.now()
        month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        by = choice(request, "by", tuple(NAMES), "team")
        start, end = moment(request, "from", month), moment(request, "to", now)
        rows, total = costs_by(viewer_of(request), by, start=start, end=end)
        shown = {
            "by": by,
            "start": start,
            "end": end,
            "currency": load_conf().currency,
            **part_of(request, rows, list, key=lambda row: row.key),
            "total": total,
        }
        return Response(Costs(shown).data)
