"""Maintenance windows."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.queues import WindowView, get_visible_window, window_views
from scheduler.services.errors import NotFound
from scheduler.services.sites.windows import cancel_window, plan_window


class WindowShape(serializers.Serializer[Any]):
    """No node named means all nodes of the pool."""

    id = serializers.IntegerField()
    pool = serializers.CharField()
    nodes = serializers.ListField(child=serializers.CharField())
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField()
    reason = serializers.CharField()


class Windows(Part):
    """All windows that are not over."""

    items = WindowShape(many=True)


class Zoned(serializers.DateTimeField):
    """A moment with its zone."""

    def enforce_timezone(self, value: Any) -> Any:
        if timezone.is_naive(value):
            raise serializers.ValidationError(
                "give the time with its zone, such as 2026-11-27T18:00Z"
            )
        return super().enforce_timezone(value)


class WindowBody(serializers.Serializer[Any]):
    """A window for all nodes of a pool, or for some by name.

    Bookings that have no other nodes then refuse it (`booking_clash`), unless `over_bookings` is
    said; then they are marked and their owners told.
    """

    pool = serializers.CharField(max_length=63)
    nodes = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, max_length=4096
    )
    from_at = Zoned()
    until_at = Zoned()
    reason = serializers.CharField(max_length=200, required=False, allow_blank=True)
    over_bookings = serializers.BooleanField(required=False)


class WindowList(ApiView):
    """`/windows/`."""

    @operation(
        "windows_list",
        "Planned maintenance",
        scope="nodes:read",
        query=PART_QUERY,
        reply=Windows,
    )
    def get(self, request: Request) -> Response:
        return Response(_shown(request))

    @operation(
        "windows_plan",
        "Plan maintenance; no job will be in its way (operators)",
        scope="nodes:write",
        body=WindowBody,
        reply=Windows,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, WindowBody), viewer_of(request)
        try:
            pool = get_visible_pool(actor, sent.pop("pool"))
        except NotFound:
            raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None
        plan_window(actor=actor, pool=pool, **sent)
        return Response(_shown(request), status=201)


class WindowCancel(ApiView):
    """`/windows/<pk>/cancel/`."""

    @operation(
        "windows_cancel",
        "Call maintenance off, or end it now (operators)",
        scope="nodes:write",
        reply=Windows,
    )
    def post(self, request: Request, pk: int) -> Response:
        body_of(request)
        actor = viewer_of(request)
        cancel_window(actor=actor, window=get_visible_window(actor, pk))
        return Response(_shown(request))


def _shown(request: Request) -> dict[str, Any]:
    views = window_views(viewer_of(request), now=timezone.now())
    return part_of(
        request,
        views,
        lambda found: [_show(view) for view in found],
        key=lambda view: view.window.pk,
        path=reverse("api:windows"),
    )


def _show(view: WindowView) -> dict[str, Any]:
    return {
        "id": view.window.pk,
        "pool": view.window.pool.name,
        "nodes": list(view.nodes),
        "from_at": view.window.from_at,
        "until_at": view.window.until_at,
        "reason": view.window.reason,
    }
