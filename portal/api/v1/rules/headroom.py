"""`/rules/headroom/`."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.selectors.calendar.headroom import HeadroomView, headroom_views
from scheduler.selectors.cluster import get_visible_pool
from scheduler.services.bookings.headroom import set_headroom
from scheduler.services.errors import NotFound


class HeadroomShape(serializers.Serializer[Any]):
    """GPUs production can always have; of those in order, who holds how many now."""

    pool = serializers.CharField()
    gpu_model = serializers.CharField(allow_blank=True)
    gpus = serializers.IntegerField()
    in_production = serializers.IntegerField()
    lent = serializers.IntegerField()
    free = serializers.IntegerField()


class Headrooms(Part):
    """Of all pools that have any."""

    items = HeadroomShape(many=True)


class HeadroomBody(serializers.Serializer[Any]):
    """An empty model means any; 0 GPUs keep nothing any more."""

    pool = serializers.CharField(max_length=63)
    gpu_model = serializers.CharField(max_length=96, required=False, default="", allow_blank=True)
    gpus = serializers.IntegerField(min_value=0, max_value=1_000_000)


class HeadroomList(ApiView):
    """`/rules/headroom/`."""

    @operation(
        "headroom_list",
        "What production can always have",
        scope="jobs:read",
        query=PART_QUERY,
        reply=Headrooms,
    )
    def get(self, request: Request) -> Response:
        return Response(_shown(request))

    @operation(
        "headroom_set",
        "Keep GPUs for production, lent to jobs that can be stopped (operators)",
        scope="nodes:write",
        body=HeadroomBody,
        reply=Headrooms,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, HeadroomBody), viewer_of(request)
        try:
            sent["pool"] = get_visible_pool(actor, sent["pool"])
        except NotFound:
            raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None
        set_headroom(actor=actor, **sent)
        return Response(_shown(request))


def _shown(request: Request) -> dict[str, Any]:
    views = headroom_views(viewer_of(request))
    return part_of(
        request, views, lambda found: [_show(one) for one in found], key=lambda one: one.headroom.pk
    )


def _show(view: HeadroomView) -> dict[str, Any]:
    return {
        "pool": view.headroom.pool.name,
        "gpu_model": view.headroom.gpu_model,
        "gpus": view.headroom.gpus,
        "in_production": view.in_production,
        "lent": view.lent,
        "free": view.free,
    }
