"""Advance bookings."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, body_of, operation
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from portal.api.v1.rules.windows import Zoned
from scheduler.models import Booking
from scheduler.selectors.calendar.bookings import (
    BookingView,
    booking_views,
    get_visible_booking,
    views_of,
)
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.sharing import get_visible_owner
from scheduler.services.bookings import cancel_booking, edit_booking, plan_booking
from scheduler.services.errors import NotFound

_GPUS: dict[str, Any] = {"min_value": 0, "max_value": 64, "required": False}
_LAST = 2**63 - 1


class BookingShape(serializers.Serializer[Any]):
    """Of foreign bookings `owner`, `name`, `note` and who made them are null.

    `gpus_per_node` 0 books whole nodes. `node_names`: where it is as planned now. `hurt_by`: the
    maintenance window for which there are no other nodes. `jobs_too_large`: waiting jobs inside
    that ask for more than it has by now.
    """

    id = serializers.IntegerField()
    state = serializers.CharField()
    pool = serializers.CharField()
    gpu_model = serializers.CharField(allow_blank=True)
    nodes = serializers.IntegerField()
    gpus_per_node = serializers.IntegerField()
    node_names = serializers.ListField(child=serializers.CharField())
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField()
    owner = serializers.CharField(allow_null=True)
    name = serializers.CharField(allow_null=True, allow_blank=True)
    note = serializers.CharField(allow_null=True, allow_blank=True)
    made_by = serializers.CharField(allow_null=True)
    jobs = serializers.IntegerField(allow_null=True)
    jobs_too_large = serializers.IntegerField(allow_null=True)
    version = serializers.IntegerField()
    hurt_by = serializers.IntegerField(allow_null=True)


class Bookings(Part):
    """What is booked now and from now on."""

    items = BookingShape(many=True)


class BookingBody(serializers.Serializer[Any]):
    """For a team or a `team/project`: whole nodes, or so many GPUs of each."""

    owner = serializers.CharField(max_length=130)
    pool = serializers.CharField(max_length=63)
    nodes = serializers.IntegerField(min_value=1, max_value=4096)
    gpus_per_node = serializers.IntegerField(**_GPUS)
    gpu_model = serializers.CharField(max_length=96, required=False, allow_blank=True)
    from_at = Zoned()
    until_at = Zoned()
    name = serializers.CharField(max_length=63, required=False, allow_blank=True)
    note = serializers.CharField(max_length=200, required=False, allow_blank=True)


class BookingChanges(serializers.Serializer[Any]):
    """What is to be different; `version` is the one you have read. `reason`: why it ends earlier,
    one line; needed where jobs of others end with it."""

    version = serializers.IntegerField(min_value=1)
    from_at = Zoned(required=False)
    until_at = Zoned(required=False)
    nodes = serializers.IntegerField(min_value=1, max_value=4096, required=False)
    gpus_per_node = serializers.IntegerField(**_GPUS)
    note = serializers.CharField(max_length=200, required=False, allow_blank=True)
    reason = serializers.CharField(required=False, allow_blank=True)


class BookingVersion(serializers.Serializer[Any]):
    """The version you have read, if it matters. `reason`: why, in one line; needed where jobs of
    others are inside, whose owners are told."""

    version = serializers.IntegerField(min_value=1, required=False)
    reason = serializers.CharField(required=False, allow_blank=True)


class BookingList(ApiView):
    """`/bookings/`."""

    @operation(
        "bookings_list", "What is booked, by whom as far as you may know", scope="jobs:read",
        query=PART_QUERY, reply=Bookings,
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        views = booking_views(viewer_of(request), now=timezone.now())
        return Response(
            part_of(
                request,
                views,
                lambda found: [show_booking(view) for view in found],
                key=lambda view: view.booking.pk,
            )
        )

    @operation(
        "bookings_plan",
        "Book nodes for a team or project (who leads it)",
        scope="jobs:write",
        body=BookingBody,
        reply=BookingShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, BookingBody), viewer_of(request)
        pool, owner = sent.pop("pool"), sent.pop("owner")
        try:
            sent["pool"] = get_visible_pool(actor, pool)
        except NotFound:
            raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None
        try:
            sent["owner"] = get_visible_owner(actor, owner)
        except NotFound:
            words = "there is no such team or project for you"
            raise serializers.ValidationError({"owner": [words]}) from None
        return _reply(request, plan_booking(actor=actor, **sent), status=201)


class BookingByNumber(ApiView):
    """`/bookings/<id>/`."""

    @operation("bookings_show", "One of your bookings", scope="jobs:read", reply=BookingShape)
    def get(self, request: Request, pk: int) -> Response:
        return _reply(request, get_visible_booking(viewer_of(request), min(pk, _LAST)))

    @operation(
        "bookings_edit",
        "Change time, size or note of a booking",
        scope="jobs:write",
        body=BookingChanges,
        reply=BookingShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        changes, actor = body_of(request, BookingChanges), viewer_of(request)
        booking = get_visible_booking(actor, min(pk, _LAST))
        seen = {"version": changes.pop("version"), "reason": changes.pop("reason", "")}
        changed = edit_booking(actor=actor, booking=booking, changes=changes, **seen)
        return _reply(request, changed)


class BookingCancel(ApiView):
    """`/bookings/<id>/cancel/`."""

    @operation(
        "bookings_cancel",
        "Give a booking back; jobs inside are stopped",
        scope="jobs:write",
        body=BookingVersion,
        reply=BookingShape,
    )
    def post(self, request: Request, pk: int) -> Response:
        sent, actor = body_of(request, BookingVersion), viewer_of(request)
        booking = get_visible_booking(actor, min(pk, _LAST))
        return _reply(request, cancel_booking(actor=actor, booking=booking, **sent))


def show_booking(view: BookingView) -> dict[str, Any]:
    """The shape, less what is not the viewer's business."""
    booking, is_shown = view.booking, view.is_shown
    made_by = booking.created_by.get_full_name() if booking.created_by else None
    return {
        "id": booking.pk,
        "state": view.state,
        "pool": booking.pool.name,
        "gpu_model": booking.gpu_model,
        "nodes": booking.nodes,
        "gpus_per_node": booking.gpus_per_node,
        "node_names": list(view.node_names),
        "from_at": booking.from_at,
        "until_at": booking.until_at,
        "owner": booking.owner_path if is_shown else None,
        "name": booking.name if is_shown else None,
        "note": booking.note if is_shown else None,
        "made_by": made_by if is_shown else None,
        "jobs": view.jobs if is_shown else None,
        "jobs_too_large": view.too_large if is_shown else None,
        "version": booking.version,
        "hurt_by": booking.hurt_by_id,
    }


def _reply(request: Request, booking: Booking, *, status: int = 200) -> Response:
    (view,) = views_of(viewer_of(request), [booking], now=timezone.now())
    return Response(show_booking(view), status=status)
